package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cpumanager"
	"github.com/planekit/planekit/kubelet/kubeletconfig"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/staticpods"
)

// ofNodes are fields of a KubeletConfiguration that this program sets for each node.
var ofNodes = map[string]string{
	"podCIDR":    "--cluster-cidr says which addresses pods have",
	"cgroupRoot": "each node has a cgroup of its own",
	"podLogsDir": "each node has a directory of its own in --data-dir",
}

// readKubeletConfig reads --kubelet-config.
func (o *options) readKubeletConfig() error {
	if o.kubeletConfig == "" {
		return nil
	}
	file, err := func() (*kubeletconfig.File, error) {
		data, err := os.ReadFile(o.kubeletConfig)
		if err != nil {
			return nil, err
		}
		file, err := kubeletconfig.Decode(data)
		if err != nil {
			return nil, err
		}
		for field, why := range ofNodes {
			if file.Has(field) {
				return nil, fmt.Errorf("%s cannot be set: %s", field, why)
			}
		}
		var config kubelet.Config
		if err := file.Apply(&config); err != nil {
			return nil, err
		}
		if config.CPUManager.Policy == cpumanager.PolicyStatic && o.nodes > 1 {
			return nil, fmt.Errorf("cpuManagerPolicy %s needs --nodes 1: the nodes share the CPUs of this machine", cpumanager.PolicyStatic)
		}
		if file.Has("evictionHard") && o.evictionHard != "" {
			return nil, errors.New("evictionHard and --eviction-hard exclude each other")
		}
		if file.Has("staticPodPath") && o.manifestPath != "" {
			return nil, errors.New("staticPodPath and --pod-manifest-path exclude each other")
		}
		if p := file.Program("/"); o.nodes == 0 && (p.StaticPodPath != "" || p.StaticPodURL != "") {
			return nil, errors.New("static pods need a node")
		}
		return file, nil
	}()
	if err != nil {
		return fmt.Errorf("--kubelet-config %s: %w", o.kubeletConfig, err)
	}
	folder, err := filepath.Abs(filepath.Dir(o.kubeletConfig))
	if err != nil {
		return err
	}
	o.kubelet, o.program = file, file.Program(folder)
	return nil
}

// kubeletWarnings returns what in --kubelet-config has no effect.
func (o *options) kubeletWarnings() []string {
	if o.kubelet == nil {
		return nil
	}
	return o.kubelet.Warnings(kubeletconfig.StaticPods, kubeletconfig.TLS, kubeletconfig.Debugging)
}

// configureStatic says where the static pods of the first node come from.
func (o *options) configureStatic(c *staticpods.Config) {
	if o.kubelet == nil {
		return
	}
	c.Path = cmp.Or(c.Path, o.program.StaticPodPath)
	c.URL, c.Header = o.program.StaticPodURL, o.program.StaticPodHeader
	c.Period, c.URLPeriod = o.program.FileCheck, o.program.URLCheck
}

// configureServer changes the configuration of a kubelet's server to what the options say.
func (o *options) configureServer(c *server.Config) {
	if o.kubelet != nil {
		o.program.ApplyTLS(c.TLS)
		c.NoDebugging = !o.program.DebuggingHandlers
	}
}

// configureKubelet changes the configuration of a node's kubelet to what the options say.
func (o *options) configureKubelet(k *kubelet.Config) {
	if o.kubelet != nil {
		if err := o.kubelet.Apply(k); err != nil {
			// The file was valid with other settings: those of nodes.
			k.Log.Error(err, "kubelet configuration")
		}
	}
	k.Eviction.Thresholds = append(k.Eviction.Thresholds, o.thresholds...)
}
