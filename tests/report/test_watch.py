"""`amsfl watch`: what is new and nothing twice, nobody else's files, and the page while a run goes on."""

import http.client
import json
import threading
import time
from contextlib import contextmanager

import pytest
import record_small
from browser import view

import amsfl
from amsfl import record
from amsfl.record import RoundRecord, sealed_text, tail
from amsfl.report.live.follow import Follower
from amsfl.report.live.serve import WatchServer

HOSTILE = '<img src=x onerror="document.title=666">&\u202e'


@contextmanager
def served(folder):
    with WatchServer(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, host=None, method="GET"):
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    line.request(method, path, headers={"Host": host or f"127.0.0.1:{server.port}"})
    answer = line.getresponse()
    return answer.status, answer.read().decode(), dict(answer.getheaders())


def test_only_what_is_new_is_sent(tmp_path):
    follower = Follower(tmp_path / "run")
    first = follower.news("")
    assert first["anew"] and first["state"]["kind"] == "waiting" and first["events"] == []
    assert not follower.news(first["cursor"])["anew"]
    with record.create(tmp_path / "run", record_small.manifest()) as writer:
        begun = follower.news(first["cursor"])
        assert begun["anew"] and begun["head"]["title"] == "Fake on " and begun["state"]["kind"] == "running"
        cursor, seen = begun["cursor"], []
        for number in range(1, 4):
            writer.append(record_small.one_round(number))
            news = follower.news(cursor)
            assert [one["at"]["rounds"] for one in news["events"]] == [number]
            assert news["sites"]["title"] == f"round {number}" and not news["anew"]
            assert news["sites"]["rows"][0]["total"] == sum(range(1, number + 1))
            cursor, seen = news["cursor"], [*seen, *news["events"]]
        assert "sites" not in follower.news(cursor) and follower.news(cursor)["events"] == []
        assert follower.news("")["events"] == follower.news("of nobody")["events"] == seen
        assert seen[-1]["at"]["time"] == 4.5
        assert seen[-1]["scores"]["holdout/accuracy"] == pytest.approx(1 - 1 / 3.1)
        writer.end(record_small.summary(3))
    assert follower.news(cursor)["state"] == {"kind": "finished", "say": "Finished after 3 rounds."}


def test_the_score_that_a_run_goes_by_comes_first(tmp_path):
    """A class's own, which is one of a list on record; and numbers, whose errors have no upper end."""
    about = {"data": {"classes": ["no", "yes"], "base": {"holdout": {"accuracy": 0.6, "f1": [0.7, 0.0]}}}}
    cases = [
        ("f1:yes", about, {"accuracy": 0.9, "f1": [0.8, 0.4], "loss": 2.0}, "F1 of yes", 0.4, 0.0),
        ("", {"data": {"base": {"holdout": {"r2": 0.0}}}}, {"mae": 3.0, "r2": -0.25}, "R²", -0.25, 0.0),
    ]
    for number, (name, told, scores, title, value, base) in enumerate(cases):
        made = record_small.manifest(score=name, target=0.5)._replace(about=told)
        with record.create(tmp_path / str(number), made) as writer:
            writer.append(record_small.one_round(1)._replace(metrics={"holdout": scores}))
        news = Follower(tmp_path / str(number)).news("")
        first, *others = news["scores"]
        assert first["name"] == f"hold-out {title}" and news["events"][0]["scores"][first["key"]] == value
        assert (first["target"], first["base"]) == (0.5, base) and all(o["target"] is None for o in others)
        assert len(others) == len([each for each in scores.values() if not isinstance(each, list)]) - (
            name == ""
        )


def test_a_line_that_is_not_whole_is_waited_for(tmp_path):
    with record.create(tmp_path, record_small.manifest()) as writer:
        writer.append(record_small.one_round(1))
        follower = Follower(tmp_path)
        cursor = follower.news("")["cursor"]
        line, _ = sealed_text.seal_line(record_small.one_round(2)._asdict(), writer.crc)
        with (tmp_path / "rounds.jsonl").open("ab") as file:
            file.write(line[:40])
            file.flush()
            half = follower.news(cursor)
            assert half["events"] == [] and half["state"]["kind"] == "running"
            assert half["state"]["say"] == "Running: round 1 of 6, 1.5 virtual seconds."
            file.write(line[40:])
        assert [one["at"]["rounds"] for one in follower.news(cursor)["events"]] == [2]
        with (tmp_path / "rounds.jsonl").open("ab") as file:
            file.write(b'{"round": 3, "crc": "00000000"}\n')
        said = follower.news(cursor)["state"]["say"]
        assert "line 3 was changed" in said and "amsfl verify" in said and "round 2" in said


def test_a_record_that_is_cut_back_or_replaced_begins_anew(tmp_path):
    record_small.run(tmp_path)
    follower = Follower(tmp_path)
    cursor = follower.news("")["cursor"]
    with record.reopen(tmp_path, "run") as writer:
        writer.rewind(None)
        writer.append(record_small.one_round(1)._replace(wall={"seconds": 7.0}))
        writer.remove_summary()
        news = follower.news(cursor)
        assert news["anew"] and [one["at"]["rounds"] for one in news["events"]] == [1]
    record_small.run(tmp_path, force=True, lr=0.2)
    news = follower.news(news["cursor"])
    assert news["anew"] and len(news["events"]) == 6 and not news["more"]


def test_lines_that_took_the_place_of_others_are_read_again(tmp_path):
    """The file is longer than it was, and yet its first lines are not those that were read."""

    def written(rows):
        crc, lines = 5, []
        for row in rows:
            line, crc = sealed_text.seal_line(row, crc)
            lines.append(line)
        (tmp_path / "x.jsonl").write_bytes(b"".join(lines))

    written([{"n": 1}, {"n": 2}])
    first = tail.sealed(tmp_path, "x.jsonl", tail.Tail(5), 5)
    assert [row["n"] for row in first.rows] == [1, 2]
    written([{"n": 3}, {"n": 4}, {"n": 5}])
    again = tail.sealed(tmp_path, "x.jsonl", first.tail, 5)
    assert again.anew and [row["n"] for row in again.rows] == [3, 4, 5]


def test_a_study_shows_trials_that_are_under_way(tmp_path):
    settings = {"title": "small", "trials": 3, "clients": {"names": ["a", HOSTILE]}}
    made = record_small.study_manifest(**settings)
    lock = record.Lock(tmp_path)
    with record.study.create(tmp_path, made, None, lock) as home:
        follower = Follower(tmp_path)
        for number in range(1, 4):
            home.running("two", 0, RoundRecord(number, {"sum": 1.0 * number}, cohort=[1], steps=[number]))
        news = follower.news("")
        assert [(one["series"], one["trial"], one["at"]["rounds"]) for one in news["events"]] == [
            (1, 0, 1),
            (1, 0, 2),
            (1, 0, 3),
        ]
        assert [row["name"] for row in news["sites"]["rows"]] == ["a", HOSTILE.replace("\u202e", "\ufffd")]
        home.save("two", [record_small.trial("two", 0)])
        assert not (tmp_path / "running.jsonl").exists()
        after = follower.news(news["cursor"])
        assert after["events"] == [] and "1 of 6 trials" in after["state"]["say"]  # the rounds are known
    assert Follower(tmp_path).news("")["events"] != []
    assert follower.news(after["cursor"])["state"]["kind"] == "stopped"


def test_nobody_elses_files_and_nobody_elses_names(tmp_path):
    (tmp_path / "secret").write_text("not for you")
    record_small.run(tmp_path / "run")
    with served(tmp_path / "run") as server:
        home = f"/{server.token}/"
        status, page, headers = ask(server, home)
        assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
        assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
        assert len(json.loads(ask(server, f"{home}news")[1])["events"]) == 6
        for path in ("../secret", "%2e%2e/secret", "/etc/passwd", "news/../../secret", "record.json"):
            status, body, _ = ask(server, home + path)
            assert status == 404 and "not for you" not in body
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", f"127.0.0.1:{server.port}1"):
            assert ask(server, f"{home}news", host)[0] == 403
        assert ask(server, f"{home}news", f"localhost:{server.port}")[0] == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(server, f"{home}news", method=method)[0] == 501
        assert server.server_address[0] == "127.0.0.1"


def test_other_users_of_the_machine_need_the_token(tmp_path):
    record_small.run(tmp_path / "run")
    with served(tmp_path / "run") as server, served(tmp_path / "run") as other:
        assert server.token != other.token and server.token in server.address
        for path in (
            "/",
            "/news",
            "/wrong/",
            "/wrong/news",
            f"/{server.token[:-1]}/",
            f"/{other.token}/news",
        ):
            status, body, _ = ask(server, path)
            assert status == 403 and "amsfl watch" in body and "accuracy" not in body


def test_an_address_that_cannot_be_read_gets_a_sentence(tmp_path, capsys):
    with served(tmp_path) as server:
        status, body, _ = ask(server, "http://[::1")
        assert status == 400 and "cannot be read" in body
    assert capsys.readouterr().err == ""


def test_a_link_that_leads_out_is_not_followed(tmp_path):
    record_small.run(tmp_path / "run")
    (tmp_path / "other").write_bytes((tmp_path / "run" / "rounds.jsonl").read_bytes())
    (tmp_path / "run" / "rounds.jsonl").unlink()
    (tmp_path / "run" / "rounds.jsonl").symlink_to(tmp_path / "other")
    news = Follower(tmp_path / "run").news("")
    assert news["events"] == [] and "leads out" in news["state"]["say"]


def until(browser, script, wanted=True):
    """What the page comes to; it asks once a second."""
    end = time.monotonic() + 60
    while (found := browser.execute_script(f"return {script}")) != wanted:
        assert time.monotonic() < end, (script, found, wanted)
        time.sleep(0.1)


TEXT = "document.getElementById('%s').textContent"


def test_the_page_follows_a_run_while_it_goes_on(tmp_path, browser):
    out, gate = tmp_path / HOSTILE.replace("/", "")[:20], threading.Semaphore(3)
    rows = ["site,x,y"] + [f"{HOSTILE.replace(',', '')},{n % 5},{'ab'[n % 2]}" for n in range(40)]
    rows += [f"plain,{n % 7},{'ab'[n % 2]}" for n in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf-8")
    settings = {"data": str(tmp_path / "t.csv"), "label": "y", "client_column": "site", "model": "softmax"}

    def work():
        amsfl.run(out=out, engine="loop", rounds=6, watch=lambda _: gate.acquire(), **settings)

    with served(out) as server:
        view(browser, 390, "dark")
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(server.address)
        until(browser, "document.getElementById('state').dataset.kind", "waiting")
        run = threading.Thread(target=work)
        run.start()
        try:
            until(browser, TEXT % "when", "round 4")  # the fourth is on record and waits to go on
            until(browser, "document.getElementById('state').dataset.kind", "running")
            until(browser, "document.querySelectorAll('#chart svg path').length > 5")
            names = browser.execute_script(
                "return [...document.querySelectorAll('#rows th')].map(e => e.textContent)"
            )
            assert HOSTILE.replace("\u202e", "\ufffd") in names and "plain" in names
            assert "step" in browser.execute_script(
                "return document.querySelector('#rows .text').textContent"
            )
            for width, mode in ((390, "dark"), (1280, "light")):
                view(browser, width, mode)
                assert browser.execute_script("return document.documentElement.scrollWidth") <= width
                paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
                assert (paper == "rgb(255, 255, 255)") == (mode == "light")
        finally:
            for _ in range(6):
                gate.release()
            run.join()
        until(browser, TEXT % "state", "Finished after 6 rounds.")
        assert browser.execute_script("return document.images.length") == 0
        assert browser.title != "666" and browser.get_log("browser") == []
