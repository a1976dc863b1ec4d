package main

import (
	"cmp"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/kube/core"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/logind"
	"github.com/planekit/planekit/kubelet/shutdown"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/plane/stack"
)

// options are the flags, and how the server listens.
type options struct {
	root, socket, manifests, config string
	period                          time.Duration
	ending                          shutdown.Config
	listen                          func(network, address string) (net.Listener, error)
}

// define defines the flags.
func (o *options) define() {
	flag.StringVar(&o.root, "root", "/var/lib/standalone-kubelet", "directory of volumes and logs")
	flag.StringVar(&o.socket, "runtime-endpoint", "", "socket of a CRI runtime (default one in this process)")
	flag.StringVar(&o.manifests, "manifests", "", "directory of the pods' manifests (default staticPodPath of --config)")
	flag.StringVar(&o.config, "config", "", "file with a KubeletConfiguration")
	flag.DurationVar(&o.period, "file-check-frequency", 0, "how often the directory is read (default 20s)")
	flag.DurationVar(&o.ending.GracePeriod, "shutdown-grace-period", 0, "how long pods may take to end before the machine shuts down (default 0: they are not ended; needs systemd-logind)")
	flag.DurationVar(&o.ending.CriticalPods, "shutdown-grace-period-critical-pods", 0, "the part of --shutdown-grace-period for critical pods, which end last")
}

// kubelet returns the configuration of the kubelet, and of what is around it.
func (o *options) kubelet(said logr.Logger) (kubelet.Config, configuration, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return kubelet.Config{}, configuration{}, err
	}
	config := kubelet.Config{NodeName: "standalone", Root: root, LogRoot: filepath.Join(root, "logs"), StopPodsOnExit: true, Log: said}
	settings, err := readConfiguration(o.config)
	if err != nil {
		return config, settings, err
	}
	for _, warning := range settings.warnings() {
		said.Info("configuration", "warning", warning)
	}
	if err := settings.Apply(&config); err != nil {
		return config, settings, err
	}
	config.Shutdown.GracePeriod = cmp.Or(o.ending.GracePeriod, config.Shutdown.GracePeriod)
	config.Shutdown.CriticalPods = cmp.Or(o.ending.CriticalPods, config.Shutdown.CriticalPods)
	if err := settings.check(); err != nil {
		return config, settings, fmt.Errorf("--config %s: %w", o.config, err)
	}
	return config, settings, nil
}

// static says where the pods come from. Flags come before the file.
func (o *options) static(k kubelet.Config, c configuration) staticpods.Config {
	return staticpods.Config{
		NodeName: k.NodeName, Path: cmp.Or(o.manifests, c.StaticPodPath), URL: c.StaticPodURL, Header: c.StaticPodHeader,
		Period: cmp.Or(o.period, c.FileCheck), URLPeriod: c.URLCheck, Complete: core.CompletePod, Log: k.Log,
	}
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
