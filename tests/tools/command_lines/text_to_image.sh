# Stable Diffusion 1.4 as config/sd_v1.toml draws with it: the first example of Optimum Habana's examples/stable-diffusion/README.md, December 2022, with
# 8 pictures at a time.
python text_to_image_generation.py \
    --model_name_or_path CompVis/stable-diffusion-v1-4 \
    --prompts "An image of a squirrel in Picasso style" \
    --num_images_per_prompt 20 \
    --batch_size 8 \
    --image_save_dir /tmp/stable_diffusion_images \
    --use_habana \
    --use_hpu_graphs \
    --gaudi_config Habana/stable-diffusion
