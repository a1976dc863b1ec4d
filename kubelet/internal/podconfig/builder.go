// Package podconfig translates a pod to CRI: to the configuration of
// its sandbox and of each container, with the environment, mounts, names, resolver and security
// settings, and the small files that are mounted into containers.
package podconfig

import (
	"context"
	"iter"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/abilities"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/userns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Builder builds the configurations of the pods of one node. Its methods are safe for concurrent use.
type Builder struct {
	// NodeName is the name of the Node, and HostName the machine's.
	NodeName, HostName string
	// HostIPs are the node's internal addresses.
	HostIPs []string
	// Root is the directory of the pods' directories, and LogRoot that of their logs.
	Root, LogRoot string
	// ClusterDNS, ClusterDomain and ResolvConf are those of the kubelet's configuration.
	ClusterDNS    []string
	ClusterDomain string
	ResolvConf    string
	// Capacity returns the node's capacity.
	Capacity func() corev1.ResourceList
	// Cgroup returns the parent of a pod's cgroups; empty if pods have none.
	Cgroup func(pod *corev1.Pod) string
	// CPU says how limits of cpu are enforced.
	CPU cgroup.CPU
	// Handler returns the runtime handler of a pod.
	Handler func(pod *corev1.Pod) (string, error)
	// Abilities holds what the runtime supports, and UserNamespaces the ID ranges of pods without
	// hostUsers.
	Abilities      *abilities.Set
	UserNamespaces *userns.Ranges
	// KillTogether reports whether the kernel kills all processes of a container that exceeds its memory
	// limit, which takes version 2 of cgroups. Nil means false.
	KillTogether func() bool
	// SeccompDefault gives containers without a seccomp profile the runtime's default one.
	SeccompDefault bool
	// HugePageSizes are the machine's, as in CRI: "2MB".
	HugePageSizes func() []string
	// Services returns the services of a namespace. Nil means that containers get no variables of
	// services.
	Services func(namespace string) iter.Seq[*corev1.Service]
	// Secrets and ConfigMaps read objects from the API server. They may be nil.
	Secrets    func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMaps func(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)

	Log logr.Logger
}

// PodDirectory returns the directory of a pod's volumes and small files.
func (b *Builder) PodDirectory(uid types.UID) string {
	return filepath.Join(b.Root, "pods", string(uid))
}

// LogDirectory returns the directory of the logs of a pod's containers.
func (b *Builder) LogDirectory(pod *corev1.Pod) string {
	return filepath.Join(b.LogRoot, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}
