// Package standalone runs a kubelet without an API server: its pods come from manifests in a directory.
//
//	s := stack.New()
//	err := s.Main(ctx, func(ctx context.Context) error {
//		_, err := standalone.Start(ctx, s, standalone.Config{
//			Root: "/var/lib/pods", Socket: "/run/containerd/containerd.sock", Manifests: "/etc/kubernetes/manifests",
//		})
//		return err
//	})
//
// # Model
//
// Start starts the parts of the node on a stack: the source of the static pods (package staticpods), the
// kubelet, and, if the configuration says so, the kubelet's server and a watcher that ends the pods before
// the machine shuts down (package logind). The kubelet stops its pods when the stack stops.
//
// A KubeletConfiguration can describe the node. If it has tlsCertFile, the server runs, for clients with
// certificates of authentication.x509.clientCAFile, and for all if authentication.anonymous.enabled is
// true. Every client that it lets in may do everything. All certificates follow their files. With readOnlyPort,
// a second server without TLS shows health, pods, statistics and metrics to everybody. With maxOpenFiles, the
// whole process may have so many files open; if it may not have more, that is logged.
//
// # Failure
//
// Start refuses a configuration that needs an API server: webhooks that authenticate or authorize. Fields
// without an effect are named in the log. What fails later is described in package kubelet.
//
// # Not included
//
// The server has no /metrics and no /metrics/probes.
package standalone

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/kube/core"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/logind"
	"github.com/planekit/planekit/kubelet/shutdown"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/plane/stack"
)

// Config describes a node. Root, Socket, and Manifests or a ConfigFile that has static pods must be set.
type Config struct {
	// NodeName is the name of the node. Empty means standalone.
	NodeName string
	// Root is the directory of volumes, and of logs, which are in the directory logs below it.
	Root string
	// Socket is the socket of the container runtime.
	Socket string
	// Manifests is a directory of manifests, or one manifest. Empty means staticPodPath of ConfigFile.
	Manifests string
	// Period is the time between two reads of Manifests. Zero means fileCheckFrequency of ConfigFile, whose
	// default is 20 seconds.
	Period time.Duration
	// Shutdown says how long pods may take to end before the machine shuts down. What is zero in it is that of
	// ConfigFile.
	Shutdown shutdown.Config
	// PodCIDR is the range of pod addresses for the runtime. Empty means podCIDR of ConfigFile, and if that
	// is empty too, that the runtime has a network of its own.
	PodCIDR string
	// ConfigFile is the path of a KubeletConfiguration. Empty means that all has Kubernetes' defaults.
	ConfigFile string
	// Kubelet, when set, changes the configuration of the kubelet after all other fields but Runtime, Images
	// and StaticPods are set.
	Kubelet func(*kubelet.Config)
	// Listen opens the listener of the server. Nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// Log is silent when zero.
	Log logr.Logger
}

// Start starts a node on s. Its pods start in the background.
func Start(ctx context.Context, s *stack.Stack, c Config) (*kubelet.Kubelet, error) {
	settings, err := readSettings(c.ConfigFile)
	if err != nil {
		return nil, err
	}
	config, err := c.kubelet(settings)
	if err != nil {
		return nil, err
	}
	static, err := staticpods.New(staticpods.Config{
		NodeName: config.NodeName, Path: cmp.Or(c.Manifests, settings.StaticPodPath), URL: settings.StaticPodURL, Header: settings.StaticPodHeader,
		Period: cmp.Or(c.Period, settings.FileCheck), URLPeriod: settings.URLCheck, Complete: core.CompletePod, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	runtime, err := cri.Dial(ctx, c.Socket, cri.Options{})
	if err != nil {
		return nil, err
	}
	s.OnStop("connection", runtime.Close)
	config.Runtime, config.Images, config.StaticPods = runtime, runtime, static
	node, err := kubelet.New(config)
	if err != nil {
		return nil, err
	}
	if settings.serves() {
		if err := settings.serve(s, config, node, runtime, c.Listen); err != nil {
			return nil, err
		}
	}
	if settings.ReadOnlyPort != 0 {
		if err := settings.serveReadOnly(s, config, node, runtime, c.Listen); err != nil {
			return nil, err
		}
	}
	s.Start("static pods", static.Run)
	s.Start("kubelet", node.Run)
	return node, watchShutdown(s, node, config)
}

// kubelet returns the configuration of the kubelet.
func (c *Config) kubelet(f settings) (kubelet.Config, error) {
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return kubelet.Config{}, err
	}
	config := kubelet.Config{
		NodeName: cmp.Or(c.NodeName, "standalone"), Root: root, LogRoot: filepath.Join(root, "logs"), StopPodsOnExit: true, Log: c.Log,
	}
	if f.Has("maxOpenFiles") {
		if err := limitFiles(f.MaxOpenFiles); err != nil { // as in Kubernetes, the node goes on
			c.Log.Error(err, "Failed to set rlimit on max file handles", "maxOpenFiles", f.MaxOpenFiles)
		}
	}
	for _, warning := range f.warnings() {
		c.Log.Info("configuration", "warning", warning)
	}
	if err := f.Apply(&config); err != nil {
		return config, err
	}
	config.PodCIDR = cmp.Or(c.PodCIDR, config.PodCIDR)
	config.Shutdown.GracePeriod = cmp.Or(c.Shutdown.GracePeriod, config.Shutdown.GracePeriod)
	config.Shutdown.CriticalPods = cmp.Or(c.Shutdown.CriticalPods, config.Shutdown.CriticalPods)
	if len(c.Shutdown.ByPodPriority) > 0 {
		config.Shutdown.ByPodPriority = c.Shutdown.ByPodPriority
	}
	if err := f.check(); err != nil {
		return config, fmt.Errorf("%s: %w", c.ConfigFile, err)
	}
	if c.Kubelet != nil {
		c.Kubelet(&config)
	}
	return config, nil
}

// watchShutdown ends pods before the machine shuts down, if the configuration says so.
func watchShutdown(s *stack.Stack, node *kubelet.Kubelet, k kubelet.Config) error {
	if !k.Shutdown.Ends() {
		return nil
	}
	watcher, err := logind.New(logind.Config{Delay: k.Shutdown.Whole(), Shutdown: node.Shutdown, Canceled: node.CancelShutdown, Log: k.Log})
	if err == nil {
		s.Start("shutdown watcher", watcher.Watch)
	}
	return err
}
