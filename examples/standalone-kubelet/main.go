// Command standalone-kubelet runs the pods of a directory, without an API server:
//
//	go run ./examples/standalone-kubelet --manifests ./manifests --root /tmp/pods
//
// Containers are simulated, unless --runtime-endpoint has the socket of a CRI runtime.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/apiserver/kube/core"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/logind"
	"github.com/planekit/planekit/kubelet/shutdown"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/plane/stack"
)

func main() {
	root := flag.String("root", "/var/lib/standalone-kubelet", "directory of volumes and logs")
	socket := flag.String("runtime-endpoint", "", "socket of a CRI runtime (default one in this process)")
	manifests := flag.String("manifests", "", "directory of the pods' manifests")
	period := flag.Duration("file-check-frequency", staticpods.DefaultPeriod, "how often the directory is read")
	var ending shutdown.Config
	flag.DurationVar(&ending.GracePeriod, "shutdown-grace-period", 0, "how long pods may take to end before the machine shuts down (default 0: they are not ended; needs systemd-logind)")
	flag.DurationVar(&ending.CriticalPods, "shutdown-grace-period-critical-pods", 0, "the part of --shutdown-grace-period for critical pods, which end last")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *root, *socket, *manifests, *period, ending); err != nil {
		log.Fatal(err)
	}
}

// run runs the pods until ctx is done, and then stops them.
func run(ctx context.Context, root, socket, manifests string, period time.Duration, ending shutdown.Config) (err error) {
	s := stack.New()
	defer func() { err = errors.Join(err, s.Stop()) }()
	said := funcr.New(func(_, line string) { log.Println(line) }, funcr.Options{})
	config := kubelet.Config{NodeName: "standalone", Root: root, LogRoot: filepath.Join(root, "logs"), StopPodsOnExit: true, Shutdown: ending, Log: said}
	if socket == "" {
		socket, config.PodCIDR = filepath.Join(root, "cri.sock"), "10.88.0.0/24"
		runtime, err := memruntime.New(memruntime.Config{Socket: socket})
		if err != nil {
			return err
		}
		s.Start("runtime", runtime.Run)
		if err := s.Await(ctx, runtime.Ready()); err != nil {
			return err
		}
	}
	containers, err := cri.Dial(ctx, socket, cri.Options{})
	if err != nil {
		return err
	}
	s.OnStop("connection", containers.Close)
	static, err := staticpods.New(staticpods.Config{NodeName: config.NodeName, Path: manifests, Period: period, Complete: core.CompletePod, Log: said})
	if err != nil {
		return err
	}
	config.Runtime, config.Images, config.StaticPods = containers, containers, static
	node, err := kubelet.New(config)
	if err != nil {
		return err
	}
	s.Start("static pods", static.Run)
	s.Start("kubelet", node.Run)
	if ending.Ends() {
		watcher, err := logind.New(logind.Config{Delay: ending.Whole(), Shutdown: node.Shutdown, Canceled: node.CancelShutdown, Log: said})
		if err != nil {
			return err
		}
		s.Start("shutdown watcher", watcher.Watch)
	}
	return s.Run(ctx)
}
