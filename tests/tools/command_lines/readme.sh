# As the example's README has it later, batch 48 as in its continuous integration.
PT_HPU_LAZY_MODE=1 python ../gaudi_spawn.py --use_mpi --world_size 8 run_bridgetower.py \
  --output_dir /tmp/bridgetower-test \
  --model_name_or_path BridgeTower/bridgetower-large-itm-mlm-itc \
  --dataset_name jmhessel/newyorker_caption_contest --dataset_config_name matching \
  --dataset_revision 3c6c4f6c0ff7e902833d3afa5f8f3875c2b036e6 \
  --image_column image --caption_column image_description \
  --remove_unused_columns=False --do_train --do_eval --do_predict \
  --per_device_train_batch_size 48 --per_device_eval_batch_size 16 --num_train_epochs 5 --learning_rate 1e-5 \
  --overwrite_output_dir --save_strategy no --use_habana --use_lazy_mode --use_hpu_graphs_for_inference \
  --gaudi_config_name Habana/clip --throughput_warmup_steps 3 --logging_steps 10 \
  --dataloader_num_workers 2 --mediapipe_dataloader --distribution_strategy fast_ddp --trust_remote_code --sdp_on_bf16
