package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/planekit/planekit/bench/peer"
)

// withoutEtcd is planekit's program without etcd, because kube-apiserver has none either.
const withoutEtcd = "apiserver-noembed"

// programs returns the names of the programs to measure.
func (b *bench) programs() []string {
	var programs []string
	has := func(k kind) bool { return slices.Contains(b.kinds, k) }
	if has(planekitMemory) || has(planekitInside) {
		programs = append(programs, "apiserver")
	}
	if has(planekitOutside) {
		programs = append(programs, withoutEtcd)
	}
	if has(planekitOutside) || has(stock) {
		programs = append(programs, "etcd")
	}
	if has(stock) {
		programs = append(programs, "kube-apiserver")
	}
	return programs
}

// program returns the file of a program.
func (b *bench) program(name string) string {
	if b.bin != "" {
		if built := filepath.Join(b.bin, name); exists(built) {
			return built
		}
	}
	return filepath.Join(b.dir, "bin", name)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// build compiles the missing programs.
func (b *bench) build(ctx context.Context) error {
	module, err := peer.Module(ctx)
	if err != nil {
		return err
	}
	for _, name := range b.programs() {
		if b.bin != "" && exists(filepath.Join(b.bin, name)) {
			continue
		}
		bin, planekit, source := filepath.Join(b.dir, "bin"), filepath.Dir(module), "./examples/apiserver"
		switch name {
		case "apiserver":
			err = peer.Build(ctx, bin, planekit, source)
		case withoutEtcd:
			tags := "noembed,noprofile"
			if b.profile != "" {
				tags = "noembed"
			}
			err = peer.BuildAs(ctx, filepath.Join(bin, name), planekit, tags, source)
		default:
			err = peer.Build(ctx, bin, module, "./cmd/"+name)
		}
		if err != nil {
			return err
		}
	}
	if b.profile != "" {
		return os.MkdirAll(b.profile, 0o755)
	}
	return nil
}

// size prints the sizes of the programs.
func (b *bench) size(ctx context.Context) error {
	b.results.sizes = map[string]int64{}
	fmt.Fprintln(b.out, "\n| program, stripped | MB | linked modules |\n|---|---|---|")
	for _, name := range b.programs() {
		bytes, modules, err := peer.Size(ctx, b.program(name))
		if err != nil {
			return err
		}
		b.results.sizes[name] = bytes
		fmt.Fprintf(b.out, "| %s | %.1f | %d |\n", name, float64(bytes)/1e6, modules)
	}
	return nil
}
