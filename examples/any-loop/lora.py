"""A transformer of which only LoRA's adapters and the head travel; the rest is drawn, not downloaded."""

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification

from amsfl.flower import torch_client

SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def model():
    whole = BertForSequenceClassification(BertConfig(**SIZES, intermediate_size=64))
    return get_peft_model(whole, LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"]))


def loader(context):  # does word 1 come more often than word 2?
    words = torch.randint(
        8, (300, 12), generator=torch.Generator().manual_seed(context.node_config["partition-id"])
    )
    rows = [{"input_ids": x, "labels": ((x == 1).sum() > (x == 2).sum()).long()} for x in words]
    return DataLoader(rows, batch_size=32, shuffle=True)


def metrics(module, batch):
    return {"right": (module(**batch).logits.argmax(1) == batch["labels"]).float().mean()}


app = torch_client(model, loader, loader, optimizer=torch.optim.AdamW, metrics=metrics)
