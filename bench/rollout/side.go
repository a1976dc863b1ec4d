package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
)

// kind names the programs of a side.
type kind string

const (
	planekit       kind = "planekit"
	planekitMemory kind = "planekit in memory"
	stock          kind = "stock"
	stockLimited   kind = "stock with default limits"
)

// kinds take turns; stockLimited comes after them, once they have stopped.
var kinds = []kind{planekit, planekitMemory, stock}

func nameOf(kinds []kind) []string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return names
}

func chosen(names string) ([]kind, error) {
	if names == "" {
		return kinds, nil
	}
	var list []kind
	for name := range strings.SplitSeq(names, ",") {
		if !slices.Contains(kinds, kind(name)) {
			return nil, fmt.Errorf("there is no side %q", name)
		}
		list = append(list, kind(name))
	}
	return list, nil
}

// side is a running API server with controllers, and a client of it.
type side struct {
	kind kind
	api  *client.Client
	// processes are the servers, in the order of their start.
	processes []*peer.Process
	watcher   *watcher
}

// stop stops the watch and then the servers.
func (s *side) stop() error {
	var err error
	if s.watcher != nil {
		s.watcher.stop()
	}
	if s.api != nil {
		s.api.Close()
	}
	for _, p := range slices.Backward(s.processes) {
		err = errors.Join(err, p.Stop())
	}
	return err
}

// cpu is the processor time that all servers have used.
func (s *side) cpu() (total time.Duration, err error) {
	for _, p := range s.processes {
		used, err := p.CPU()
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

// build compiles what is measured and not built yet.
func (b *bench) build(ctx context.Context) error {
	module, err := peer.Module(ctx)
	if err != nil {
		return err
	}
	bin := filepath.Join(b.dir, "bin")
	for _, k := range b.kinds {
		var from string
		var programs []string
		switch k {
		case planekit:
			from, programs = filepath.Dir(module), []string{"./examples/cluster"}
		case stock:
			from, programs = module, []string{"./cmd/etcd", "./cmd/kube-apiserver", "./cmd/kube-controller-manager"}
		}
		programs = slices.DeleteFunc(programs, func(program string) bool {
			name := filepath.Base(program)
			return b.program(name) != filepath.Join(bin, name)
		})
		if len(programs) == 0 {
			continue
		}
		if err := peer.Build(ctx, bin, from, programs...); err != nil {
			return err
		}
	}
	return nil
}

// program is the file of a program: one that was built before, if there is.
func (b *bench) program(name string) string {
	if b.bin != "" {
		built := filepath.Join(b.bin, name)
		if _, err := os.Stat(built); err == nil {
			return built
		}
	}
	return filepath.Join(b.dir, "bin", name)
}

// start starts a side whose files are in work.
func (b *bench) start(ctx context.Context, k kind, work string) (_ *side, err error) {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	s := &side{kind: k}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	var config string
	switch k {
	case planekit:
		config, err = b.startPlanekit(ctx, s, work)
	case planekitMemory:
		config, err = b.startMemory(ctx, s, work)
	case stock:
		config, err = b.startStock(ctx, s, work, "--kube-api-qps", "5000", "--kube-api-burst", "5000")
	case stockLimited:
		config, err = b.startStock(ctx, s, work)
	}
	if err != nil {
		return nil, err
	}
	if s.api, err = kubeconfig.Connect(config); err != nil {
		return nil, err
	}
	if s.watcher, err = watch(ctx, s.api); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *side) launch(work, name, program string, arguments ...string) (*peer.Process, error) {
	p, err := peer.Launch(filepath.Join(work, name+".log"), program, arguments...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

func (b *bench) startPlanekit(ctx context.Context, s *side, work string) (config string, err error) {
	config = filepath.Join(work, "kubeconfig")
	p, err := s.launch(work, "cluster", b.program("cluster"), "--data-dir", filepath.Join(work, "data"), "--kubeconfig", config,
		"--listen", "127.0.0.1:0", "--nodes", "0", "--offline-images", "off")
	if err != nil {
		return "", err
	}
	_, err = p.AwaitLine(ctx, "ready in ")
	return config, err
}

// startMemory starts this program once more.
func (b *bench) startMemory(ctx context.Context, s *side, work string) (config string, err error) {
	config = filepath.Join(work, "kubeconfig")
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	p, err := s.launch(work, "serve", self, serveCommand, "--kubeconfig", config, "--profile", b.profile)
	if err != nil {
		return "", err
	}
	_, err = p.AwaitLine(ctx, serving)
	return config, err
}

// stockControllers lists the stock controllers that planekit's cluster has as well. By
// default kube-controller-manager runs more than twice as many.
const stockControllers = "deployment-controller,replicaset-controller,job-controller,garbage-collector-controller,namespace-controller," +
	"serviceaccount-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller,resourcequota-controller," +
	"node-lifecycle-controller,pod-garbage-collector-controller,endpoints-controller,endpointslice-controller"

func (b *bench) startStock(ctx context.Context, s *side, work string, limits ...string) (config string, err error) {
	files, err := peer.NewStock(work)
	if err != nil {
		return "", err
	}
	if _, err := s.launch(work, "etcd", b.program("etcd"), files.EtcdArguments()...); err != nil {
		return "", err
	}
	if _, err := s.launch(work, "kube-apiserver", b.program("kube-apiserver"), files.APIServerArguments()...); err != nil {
		return "", err
	}
	if err := files.AwaitReady(ctx); err != nil {
		return "", err
	}
	_, err = s.launch(work, "kube-controller-manager", b.program("kube-controller-manager"), append([]string{
		"--kubeconfig", files.Config, "--service-account-private-key-file", files.Key, "--secure-port", "0",
		"--leader-elect=false", "--use-service-account-credentials=false", "--controllers", stockControllers,
	}, limits...)...)
	return files.Config, err
}
