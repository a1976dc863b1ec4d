package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/planekit/planekit/bench/peer"
)

// side is a server under measurement.
type side struct {
	name, url string
	processes []*peer.Process // the API server is the last
}

// users returns the users of the tokens in the format of --token-auth-file.
func users() []byte {
	lines := `admin-token,admin,,"system:masters"
greedy-token,greedy,,
tenant-token,tenant,,
manager-token,system:kube-controller-manager,,
`
	for i := range nodes {
		lines += fmt.Sprintf("node-token-%d,system:node:node-%d,,\"system:nodes\"\n", i, i)
	}
	return []byte(lines)
}

// starters start the servers with a file of tokens, each in a directory of its own.
var starters = map[string]func(context.Context, *side, string, *peer.Stock) error{
	"planekit":       startPlanekit,
	"kube-apiserver": startStock,
}

func startPlanekit(ctx context.Context, s *side, bin string, files *peer.Stock) error {
	server, err := peer.Launch(filepath.Join(filepath.Dir(files.Tokens), "server.log"), filepath.Join(bin, "cluster"),
		"--data-dir", filepath.Join(filepath.Dir(files.Tokens), "data"), "--listen", "127.0.0.1:0", "--nodes", "0", "--runtime", "fake",
		"--token-auth-file", files.Tokens, "--authorization-mode", "RBAC")
	if err != nil {
		return err
	}
	s.processes = append(s.processes, server)
	line, err := server.AwaitLine(ctx, "ready in ")
	if err != nil {
		return err
	}
	_, s.url, _ = strings.Cut(line, ": ")
	return nil
}

func startStock(ctx context.Context, s *side, bin string, files *peer.Stock) error {
	for name, arguments := range map[string][]string{"etcd": files.EtcdArguments()} {
		p, err := peer.Launch(filepath.Join(filepath.Dir(files.Tokens), name+".log"), filepath.Join(bin, name), arguments...)
		if err != nil {
			return err
		}
		s.processes = append(s.processes, p)
	}
	server, err := peer.Launch(filepath.Join(filepath.Dir(files.Tokens), "server.log"), filepath.Join(bin, "kube-apiserver"),
		append(files.APIServerArguments(), peer.LeastAdmission()...)...)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, server)
	s.url = files.URL
	return files.AwaitReady(ctx)
}

// measure starts a server, the greedy clients and the others, and returns the latencies of the
// others.
func measure(ctx context.Context, o *options, name string, start func(context.Context, *side, string, *peer.Stock) error) (r *report, err error) {
	work, err := os.MkdirTemp("", "fairness-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	bin, err := programs(ctx, o, work, name)
	if err != nil {
		return nil, err
	}
	files, err := peer.NewStock(work)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(files.Tokens, users(), 0o600); err != nil {
		return nil, err
	}
	s := &side{name: name}
	defer func() {
		for i := len(s.processes) - 1; i >= 0; i-- {
			err = errors.Join(err, s.processes[i].End())
		}
	}()
	if err := start(ctx, s, bin, files); err != nil {
		return nil, err
	}
	if err := prepare(ctx, s.url); err != nil {
		return nil, err
	}
	r = &report{side: s.name}
	if r.alone, err = others(ctx, s.url, min(o.duration, 5*time.Second)); err != nil {
		return nil, err
	}
	greedy, err := launchGreedy(ctx, o, s.url)
	if err != nil {
		return nil, err
	}
	server := s.processes[len(s.processes)-1]
	before, err := server.CPU()
	if err != nil {
		return nil, err
	}
	if r.beside, err = others(ctx, s.url, o.duration); err != nil {
		return nil, errors.Join(err, greedy.stop(r))
	}
	after, err := server.CPU()
	r.cpu = after - before
	if r.resident, err = server.Resident(); err != nil {
		return nil, errors.Join(err, greedy.stop(r))
	}
	return r, greedy.stop(r)
}

// programs builds the missing programs of the side.
func programs(ctx context.Context, o *options, work, name string) (bin string, err error) {
	if o.bin != "" {
		return o.bin, nil
	}
	module, err := peer.Module(ctx)
	if err != nil {
		return "", err
	}
	bin = filepath.Join(work, "bin")
	if name == "planekit" {
		return bin, peer.Build(ctx, bin, filepath.Dir(module), "./examples/cluster")
	}
	return bin, peer.Build(ctx, bin, module, "./cmd/etcd", "./cmd/kube-apiserver")
}

// greedyProcess is the process of the greedy clients.
type greedyProcess struct {
	*exec.Cmd
	out *strings.Builder
}

func launchGreedy(ctx context.Context, o *options, url string) (*greedyProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &greedyProcess{exec.CommandContext(ctx, "nice", "-n", "19", self, "--target", url, "--greedy", fmt.Sprint(o.greedy), "--duration", "1h"), &strings.Builder{}}
	g.Stdout, g.Stderr = g.out, os.Stderr
	if err := g.Start(); err != nil {
		return nil, err
	}
	time.Sleep(max(time.Second, time.Duration(o.greedy)*2*time.Millisecond)) // until all have connected
	return g, nil
}

// stop ends the clients and reads their counts.
func (g *greedyProcess) stop(r *report) error {
	if err := g.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err := fmt.Sscan(g.out.String(), &r.served, &r.rejected, &r.broken, &r.lasted)
	return err
}
