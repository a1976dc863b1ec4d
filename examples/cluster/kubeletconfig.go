package main

import (
	"errors"
	"fmt"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cpumanager"
	"github.com/planekit/planekit/plane/nodes"
)

// ofNodes are fields of a KubeletConfiguration that this program sets for each node.
var ofNodes = map[string]string{
	"podCIDR":    "--cluster-cidr says which addresses pods have",
	"cgroupRoot": "each node has a cgroup of its own",
	"podLogsDir": "each node has a directory of its own in --data-dir",
}

// readKubeletConfig reads --kubelet-config.
func (o *options) readKubeletConfig() (err error) {
	if o.kubeletConfig == "" {
		return nil
	}
	if o.kubelet, err = nodes.ReadFile(o.kubeletConfig); err == nil {
		err = o.checkKubeletConfig()
	}
	if err != nil {
		return fmt.Errorf("--kubelet-config %s: %w", o.kubeletConfig, err)
	}
	return nil
}

// checkKubeletConfig refuses what contradicts other flags.
func (o *options) checkKubeletConfig() error {
	for field, why := range ofNodes {
		if o.kubelet.Has(field) {
			return fmt.Errorf("%s cannot be set: %s", field, why)
		}
	}
	var config kubelet.Config
	o.kubelet.Kubelet(&config)
	switch {
	case config.CPUManager.Policy == cpumanager.PolicyStatic && o.nodes > 1:
		return fmt.Errorf("cpuManagerPolicy %s needs --nodes 1: the nodes share the CPUs of this machine", cpumanager.PolicyStatic)
	case o.kubelet.Has("evictionHard") && o.evictionHard != "":
		return errors.New("evictionHard and --eviction-hard exclude each other")
	case o.kubelet.Has("staticPodPath") && o.manifestPath != "":
		return errors.New("staticPodPath and --pod-manifest-path exclude each other")
	case o.nodes == 0 && o.kubelet.HasStaticPods():
		return errors.New("static pods need a node")
	}
	return nil
}

// configureKubelet changes the configuration of a node's kubelet to what the options say.
func (o *options) configureKubelet(k *kubelet.Config) {
	o.kubelet.Kubelet(k)
	k.Eviction.Thresholds = append(k.Eviction.Thresholds, o.thresholds...)
}
