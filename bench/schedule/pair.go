package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	programs "github.com/planekit/planekit/bench/peer"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage/etcdstore"
)

// A pair is an API server and a scheduler, each a process of its own, over an etcd.
type pair struct {
	name string
	// server starts the API server over the etcd of files, and returns the path of a kubeconfig.
	server func(ctx context.Context, r *running, files *programs.Stock) (config string, err error)
	// scheduler starts the scheduler.
	scheduler func(r *running, config string) error
}

func pairs() []pair {
	return []pair{{"planekit", ownServer, ownScheduler}, {"stock", stockServer, stockScheduler}}
}

// running is a pair that runs.
type running struct {
	work, bin string
	processes []*programs.Process
	api       *client.Client
}

func (r *running) launch(name, program string, arguments ...string) (*programs.Process, error) {
	p, err := programs.Launch(filepath.Join(r.work, name+".log"), program, arguments...)
	if err == nil {
		r.processes = append(r.processes, p)
	}
	return p, err
}

func (r *running) stop() (err error) {
	if r.api != nil {
		r.api.Close()
	}
	for _, p := range slices.Backward(r.processes) {
		err = errors.Join(err, p.Stop())
	}
	return err
}

// cpu returns the processor time of all processes.
func (r *running) cpu() (total time.Duration, err error) {
	for _, p := range r.processes {
		used, err := p.CPU()
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

// startPair starts an etcd and the API server of a pair over it. bin is the folder of the stock programs.
func startPair(ctx context.Context, p pair, bin, work string) (r *running, config string, err error) {
	r = &running{work: work, bin: bin}
	files, err := programs.NewStock(work)
	if err != nil {
		return r, "", err
	}
	if _, err := r.launch("etcd", filepath.Join(bin, "etcd"), files.EtcdArguments()...); err != nil {
		return r, "", err
	}
	if config, err = p.server(ctx, r, files); err != nil {
		return r, "", err
	}
	r.api, err = kubeconfig.Connect(config)
	return r, config, err
}

// The commands by which this program is a part of planekit's pair, and the line that the server writes when
// its kubeconfig can be used.
const (
	serveCommand    = "serve"
	scheduleCommand = "schedule"
	serving         = "serving"
)

// part runs this program as a part of a pair until ctx is done.
func part(ctx context.Context, command string, arguments []string) error {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	config := flags.String("kubeconfig", "", "the kubeconfig, which the server writes")
	etcd := flags.String("etcd", "", "the URL of the server's etcd")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if command == serveCommand {
		return serve(ctx, *etcd, *config)
	}
	loaded, err := kubeconfig.Load(*config)
	if err != nil {
		return err
	}
	return ended(runOwn(ctx, loaded))
}

// serve runs planekit's API server over an etcd.
func serve(ctx context.Context, etcd, config string) error {
	connection, err := etcdstore.Dial(ctx, etcdstore.DialConfig{Endpoints: []string{etcd}})
	if err != nil {
		return err
	}
	defer connection.Close()
	store, err := etcdstore.New(etcdstore.Config{Client: connection})
	if err != nil {
		return err
	}
	p, err := plane.New(plane.Config{Store: store, NoScheduler: true, NoControllers: true, Parts: []plane.Part{
		func(_ context.Context, p *plane.Plane, _ *stack.Stack) error {
			if err := p.Kubeconfig().Write(config); err != nil {
				return err
			}
			fmt.Println(serving)
			return nil
		}}})
	if err != nil {
		return err
	}
	return ended(p.Run(ctx))
}

func ownServer(ctx context.Context, r *running, files *programs.Stock) (config string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	config = filepath.Join(r.work, "planekit.kubeconfig")
	p, err := r.launch("server", self, serveCommand, "--kubeconfig", config, "--etcd", files.Etcd)
	if err != nil {
		return "", err
	}
	_, err = p.AwaitLine(ctx, serving)
	return config, err
}

func ownScheduler(r *running, config string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = r.launch("scheduler", self, scheduleCommand, "--kubeconfig", config)
	return err
}

func stockServer(ctx context.Context, r *running, files *programs.Stock) (config string, err error) {
	if _, err := r.launch("kube-apiserver", filepath.Join(r.bin, "kube-apiserver"), files.APIServerArguments()...); err != nil {
		return "", err
	}
	return files.Config, files.AwaitReady(ctx)
}

// stockConfiguration lets the stock scheduler send as many requests as it can. All else is its default.
const stockConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 10000, burst: 10000}
`

func stockScheduler(r *running, config string) error {
	file := filepath.Join(r.work, "scheduler.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, stockConfiguration, config), 0o600); err != nil {
		return err
	}
	_, err := r.launch("kube-scheduler", filepath.Join(r.bin, "kube-scheduler"), "--config", file, "--secure-port", "0")
	return err
}
