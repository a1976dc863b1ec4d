package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/examples/cluster/offline"
)

// plane holds the parts that both nodes share: a kube-apiserver, and a registry of images.
type plane struct {
	dir       string
	stock     *peer.Stock
	api       *client.Client
	processes []*peer.Process
	registry  string
	end       func() error // ends the registry
}

// programs returns the directory of the stock programs, which is not that of their data.
func (p *plane) programs() string { return filepath.Join(p.dir, "bin") }

func (p *plane) program(name string) string { return filepath.Join(p.programs(), name) }

func startPlane(ctx context.Context, dir string) (_ *plane, err error) {
	p := &plane{dir: dir, end: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if err := peer.Build(ctx, p.programs(), ".", "./cmd/etcd", "./cmd/kube-apiserver", "./cmd/kubelet", "./kubelet/ours"); err != nil {
		return nil, err
	}
	if p.stock, err = peer.NewStock(dir); err != nil {
		return nil, err
	}
	if err := p.launch("etcd", p.stock.EtcdArguments()...); err != nil {
		return nil, err
	}
	// No controller makes service accounts, or takes the first taints from nodes.
	if err := p.launch("kube-apiserver", append(p.stock.APIServerArguments(),
		"--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")...); err != nil {
		return nil, err
	}
	if err := p.stock.AwaitReady(ctx); err != nil {
		return nil, err
	}
	if p.api, err = kubeconfig.Connect(p.stock.Config); err != nil {
		return nil, err
	}
	return p, p.serveImages(ctx)
}

func (p *plane) launch(program string, arguments ...string) error {
	process, err := peer.Launch(filepath.Join(p.dir, program+".log"), p.program(program), arguments...)
	if err == nil {
		p.processes = append(p.processes, process)
	}
	return err
}

// serveImages runs the registry of the example cluster until the plane stops.
func (p *plane) serveImages(ctx context.Context) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	images, err := offline.New(offline.Config{Cache: filepath.Join(cache, "planekit")})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- images.Run(ctx) }()
	p.registry = images.URL()
	p.end = func() error {
		cancel()
		return <-done
	}
	return nil
}

func (p *plane) stop() error {
	err := p.end()
	if p.api != nil {
		p.api.Close()
	}
	for i := len(p.processes) - 1; i >= 0; i-- {
		err = errors.Join(err, p.processes[i].Stop())
	}
	return err
}
