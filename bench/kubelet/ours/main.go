// Command ours runs planekit's kubelet, which package kubelet of this module measures: like the stock one, it is
// a program of its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ours:", err)
		os.Exit(1)
	}
}

// run runs the kubelet until ctx is done.
func run(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("ours", flag.ContinueOnError)
	config := flags.String("kubeconfig", "", "of the API server")
	name := flags.String("node", "", "name of the node")
	dir := flags.String("dir", "", "directory for its files")
	socket := flags.String("socket", "", "of the runtime")
	cgroup := flags.String("cgroup", "", "parent of the cgroups of pods")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	api, err := kubeconfig.Connect(*config)
	if err != nil {
		return err
	}
	defer api.Close()
	runtime, err := cri.Dial(ctx, *socket, cri.Options{})
	if err != nil {
		return err
	}
	defer runtime.Close()
	pods, err := nodes.PodsOf(*name, api, logr.Discard())
	if err != nil {
		return err
	}
	c := kubelet.Config{
		NodeName: *name, Root: filepath.Join(*dir, "kubelet"), LogRoot: filepath.Join(*dir, "logs"),
		CgroupRoot: filepath.Join(*cgroup, "kubepods"), PodCIDR: "10.9.0.0/24",
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		Runtime:   runtime, Images: runtime, Pods: pods,
		Eviction: kubelet.Eviction{Thresholds: []eviction.Threshold{}}, ImageGC: kubelet.ImageGC{High: 100},
	}
	nodes.Connect(&c, api)
	k, err := kubelet.New(c)
	if err != nil {
		return err
	}
	s := stack.New()
	s.Start("pods", pods.Run)
	s.Start("kubelet", k.Run)
	return s.Run(ctx)
}
