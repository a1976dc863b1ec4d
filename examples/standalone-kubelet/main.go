// Command standalone-kubelet runs the pods of a directory, without an API server:
//
//	go run ./examples/standalone-kubelet --manifests ./manifests --root /tmp/pods
//
// With --config, it reads a KubeletConfiguration. If that has tlsCertFile, the kubelet's server runs, for
// clients with certificates of authentication.x509.clientCAFile. All certificates follow their files.
// Containers are simulated, unless --runtime-endpoint has the socket of a CRI runtime.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/plane/stack"
)

func main() {
	o := options{listen: net.Listen}
	o.define()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

// run runs the pods until ctx is done, and then stops them.
func run(ctx context.Context, o options) (err error) {
	s := stack.New()
	defer func() { err = errors.Join(err, s.Stop()) }()
	said := funcr.New(func(_, line string) { log.Println(line) }, funcr.Options{})
	config, settings, err := o.kubelet(said)
	if err != nil {
		return err
	}
	socket := o.socket
	if socket == "" {
		socket, config.PodCIDR = filepath.Join(o.root, "cri.sock"), "10.88.0.0/24"
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
	static, err := staticpods.New(o.static(config, settings))
	if err != nil {
		return err
	}
	config.Runtime, config.Images, config.StaticPods = containers, containers, static
	node, err := kubelet.New(config)
	if err != nil {
		return err
	}
	if settings.serves() {
		if err := settings.serve(s, config, node, containers, o.listen); err != nil {
			return err
		}
	}
	s.Start("static pods", static.Run)
	s.Start("kubelet", node.Run)
	if err := watchShutdown(s, node, config); err != nil {
		return err
	}
	return s.Run(ctx)
}
