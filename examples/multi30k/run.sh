#!/usr/bin/env bash
# Multi30k English→German: fairseq's Transformer and two gated syntax Transformers of one size, on the same data-bin.
#   bash run.sh DATA WORK [options of fairseq-train]
# See README.md beside this file for what DATA holds. A run that was stopped goes on where it was.
set -euo pipefail
if [ $# -lt 2 ]; then
    sed -n '2,4s/^# \{0,1\}//p' "$0"
    exit 2
fi
data=$(cd "$1" && pwd)
mkdir -p "$2"
cd "$2"
options=("${@:3}")

if [ ! -e data-bin/done ]; then
    mkdir -p text bpe
    for split in train:train valid:val test:test_2016_flickr; do
        name=${split%%:*} file=${split##*:}
        for lang in en de; do
            gzip -dc "$data/tok/$file.lc.norm.tok.$lang.gz" > "text/$name.$lang"
        done
        for kind in trees conllu; do
            gzip -dc "$data/parsed/$file.en.$kind.gz" > "text/$name.en.$kind"
        done
    done
    subword-nmt learn-joint-bpe-and-vocab --input text/train.en text/train.de -s 8000 -o bpe/codes \
        --write-vocabulary bpe/vocab.en bpe/vocab.de
    for name in train valid test; do
        for lang in en de; do
            subword-nmt apply-bpe -c bpe/codes < "text/$name.$lang" > "bpe/$name.$lang"
        done
    done
    fairseq-preprocess --source-lang en --target-lang de --joined-dictionary --workers 2 --destdir data-bin \
        --trainpref bpe/train --validpref bpe/valid --testpref bpe/test
    fairseq-syntax-binarize --source-lang en --target-lang de --workers 2 --destdir data-bin \
        --trainpref bpe/train --validpref bpe/valid --testpref bpe/test \
        --trainparse text/train --validparse text/valid --testparse text/test
    touch data-bin/done
fi

train_and_score() {
    local name=$1
    fairseq-train data-bin --user-dir fairseq_syntax --task syntax_translation "${@:2}" --save-dir "checkpoints/$name" \
        --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 --encoder-layers 3 --encoder-attention-heads 4 \
        --decoder-embed-dim 128 --decoder-ffn-embed-dim 512 --decoder-layers 3 --decoder-attention-heads 4 \
        --share-all-embeddings --dropout 0.1 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr 2e-3 --lr-scheduler inverse_sqrt --warmup-updates 800 \
        --max-tokens 2500 --max-epoch 10 --seed 1 --no-epoch-checkpoints --log-format simple --log-interval 50 \
        "${options[@]}" | tee "$name.train.log"
    fairseq-generate data-bin --user-dir fairseq_syntax --task syntax_translation --beam 5 --remove-bpe \
        --path "checkpoints/$name/checkpoint_best.pt" "${device[@]}" > "$name.generate.log"
    grep ^H "$name.generate.log" | sed 's/^H-//' | sort -n | cut -f3 > "$name.de"
}

device=()
for option in "${options[@]}"; do
    if [ "$option" = --cpu ]; then
        device=(--cpu)
    fi
done
train_and_score transformer --arch transformer
train_and_score gated --arch gated_syntax_transformer --gate-warmup-epochs 3 --syntax-dropout 0.1
train_and_score gated-slr-sdoi --arch gated_syntax_transformer --gate-warmup-epochs 3 --syntax-dropout 0.1 \
    --syntax-masks slr,sdoi
for name in transformer gated gated-slr-sdoi; do
    echo "$name: $(sacrebleu text/test.de -i "$name.de" --tokenize none --force -f text)"
done
