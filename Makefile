# SPDX-License-Identifier: Apache-2.0
# The front door: verbs only. meson builds; tools/ holds what takes more than a line.

BUILD := build
WERROR := false
PREFIX := /usr/local
SECONDS := 20
PROGRAM := $(BUILD)/bascule
CONFIG := config/demo.toml
KERNEL := linux-image-cloud-amd64
CUTS := 20

.DEFAULT_GOAL := help
.PHONY: help build setup tests test quick bench emulated-check check release-check mutate sanitize fuzz demo demo-vit demo-bert demo-sentences demo-embeddings demo-t5 demo-draw demo-serve install deb deb-check image image-check power-cuts reproducible clean

help: ## List the verbs
	@grep -E '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 23

build: ## Install missing Debian packages (says which first) and compile the program, build/bascule
	@tools/install_packages
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --buildtype=release -Dwerror=$(WERROR) -Dgrouped=true -Dtests=false
	ninja -C $(BUILD) bascule

setup: ## Install the packages that the tests need and configure the build folder with them
	@tools/install_packages test
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --buildtype=release -Dwerror=$(WERROR) -Dgrouped=true
	@grep -q '^build tests/' $(BUILD)/build.ninja || meson configure $(BUILD) -Dtests=true -Dwerror=$(WERROR)

tests: setup ## Compile the program and the tests
	ninja -C $(BUILD)

test: tests ## Run every test that a bare clone can run; ends with "N passed, N failed, N skipped"
	tools/run_tests $(BUILD)

quick: tests ## Run the tests that take under a minute in all
	tools/run_tests --quick $(BUILD)

bench: setup ## Measure demos, models of published size, loader and ranks for 15 minutes on an idle machine; then open build-bench/bench.html
	ninja -C $(BUILD) bascule tests/distributed/bench_allreduce
	tools/bench --program $(PROGRAM)

emulated-check: tests ## Run kernel tests and short trainings as other CPUs (qemu-user): the recorded bits; skips what is not installed
	tools/emulated_check $(BUILD)

check: setup ## Format, tidy, headers, layers, ISA symbols, sizes, both compilers, ten faults, sanitizers
	@tools/install_packages check
	tools/check

release-check: setup ## Run every check that exists on this commit, for hours; goes on after an interruption; ends with a table
	@tools/install_packages check
	@tools/install_packages image
	@tools/install_packages emulation
	@tools/install_packages deb
	@tools/install_packages release
	tools/release_check

mutate: setup ## Put faults into the code: the tests must notice 97 % of tools/mutations and 85 % of 1,000 generated ones
	tools/mutate

sanitize: setup ## Run the tests under address, undefined-behaviour and thread sanitizers
	@tools/install_packages check
	tools/check address thread

fuzz: setup ## Feed random bytes to whatever reads files, SECONDS (20) each
	@tools/install_packages check
	tools/fuzz $(SECONDS)

demo: build ## Train a small model on 1,583 pictures, evaluate, search; then open report.html
	tools/demo $(PROGRAM)

demo-vit: build ## Train a small ViT to tell ten kinds of emoji apart, evaluate, classify; then open report.html
	tools/demo $(PROGRAM) vit_demo

demo-bert: build ## Train a small BERT on documentation of Python, evaluate, fill in words; then open report.html
	tools/demo $(PROGRAM) bert_demo

demo-sentences: build ## Train a small BERT to say which module of Python a sentence is about, classify; then open report.html
	tools/demo $(PROGRAM) bert_sentences_demo

demo-embeddings: build ## Train a small BERT to find the function of Python that does what a sentence says, compare with BM25, search; then open report.html
	tools/demo $(PROGRAM) bert_embeddings_demo

demo-t5: build ## Train a small T5 to write keywords for the names of emoji, evaluate; then open report.html
	tools/demo $(PROGRAM) t5_demo

demo-serve: build ## Train the model of `make demo-embeddings` unless it is there, and answer with it over HTTP until Ctrl-C, with a page at /ui
	tools/demo $(PROGRAM) bert_embeddings_demo serve

demo-draw: build ## Draw 50 emoji with a small Stable Diffusion; the model of `make demo` says what they show; then open report.html
	tools/demo $(PROGRAM) sd_demo

install: build ## Install the program, manual pages, completions and service under PREFIX (default /usr/local)
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	ninja -C $(BUILD) installed
	meson install -C $(BUILD) --no-rebuild --destdir "$(abspath $(DESTDIR))"

deb: ## Make a Debian package of the last commit: build-deb/bascule_VERSION_ARCH.deb
	@tools/install_packages
	@tools/install_packages deb
	tools/packaging/make_deb

deb-check: ## Build the package twice; lintian, hardening; install it on a bare Debian and run its service; skips what is not installed
	tools/packaging/deb_check

image: ## Make CONFIG (config/demo.toml) a tree, a tar and a boot file with all that it needs: build-image-demo/image
	@tools/install_packages
	@tools/install_packages image
	tools/packaging/make_image --kernel "$(KERNEL)" "$(CONFIG)"

image-check: ## Check an image in a chroot and in qemu, emulated, with 3 power cuts; skips what is not installed
	tools/packaging/image_check

power-cuts: ## Kill qemu CUTS (20) times at random instants and boot again: the bits of the unbroken run
	tools/packaging/power_cuts --cuts $(CUTS)

reproducible: ## Build program, tar, initramfs and boot file twice in different surroundings; compare and explain them
	@tools/install_packages
	@tools/install_packages image
	tools/packaging/reproducible

clean: ## Remove the build folders
	rm -rf build build-aarch64 build-clang build-tidy build-debug build-gcc build-asan build-tsan build-fuzz build-mutants build-bench build-deb build-image build-image-*
