package kubelet

import (
	"maps"
	"path/filepath"
	"time"

	"github.com/planekit/planekit/kubelet/cpumanager"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CPUManager configures the exclusive CPUs of containers. The fields are those of [cpumanager.Config].
type CPUManager struct {
	// Policy is "none" or "static"; empty means "none". The static policy needs a Runtime that is a
	// [cpumanager.Runtime].
	Policy  string
	Options map[string]string
	// Reserved lists the CPUs that no container owns; their number replaces the cpu in Config.KubeReserved
	// and SystemReserved. If it is empty, these are the lowest CPUs, as many as the two reserve, rounded up.
	Reserved string
	// ReconcilePeriod is the interval at which containers are updated; zero means 10 seconds.
	ReconcilePeriod time.Duration
}

// reserveCPUs sets the reserved cpu to the number of the reserved CPUs, if these are listed.
func (c *Config) reserveCPUs() error {
	cpus, err := cpumanager.ParseSet(c.CPUManager.Reserved)
	if err != nil || cpus.Len() == 0 {
		return err
	}
	c.KubeReserved, c.SystemReserved = maps.Clone(c.KubeReserved), maps.Clone(c.SystemReserved)
	delete(c.KubeReserved, corev1.ResourceCPU)
	if c.SystemReserved == nil {
		c.SystemReserved = corev1.ResourceList{}
	}
	c.SystemReserved[corev1.ResourceCPU] = *resource.NewQuantity(int64(cpus.Len()), resource.DecimalSI)
	return nil
}

// newCPUs returns the CPU manager. Its state file is in the root directory, as in Kubernetes.
func (k *Kubelet) newCPUs() (*cpumanager.Manager, error) {
	c := k.config.CPUManager
	runtime, _ := k.config.Runtime.(cpumanager.Runtime)
	reserved := k.config.KubeReserved.Cpu().MilliValue() + k.config.SystemReserved.Cpu().MilliValue()
	return cpumanager.New(cpumanager.Config{
		Policy: c.Policy, Options: c.Options, Reserved: c.Reserved, ReservedMilliCPU: reserved,
		ReconcilePeriod: c.ReconcilePeriod, File: filepath.Join(k.config.Root, "cpu_manager_state"),
		Runtime: runtime, Labels: map[string]string{podconfig.LabelNode: k.config.NodeName}, Active: k.alive,
		Log: k.log,
	})
}

// assignCPUs gives the containers of a pod their CPUs before the first of them starts. It rejects a pod
// for which there are not enough. A pod that ran before the kubelet was restarted stays, on shared CPUs.
func (w *worker) assignCPUs(pod *corev1.Pod, state *lifecycle.State) {
	if w.assigned || w.rejected() != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	w.assigned = true
	err := w.kubelet.cpus.Admit(pod)
	switch {
	case err == nil:
	case len(state.Containers) > 0:
		w.kubelet.log.Error(err, "a running pod shares CPUs", "pod", pod.Namespace+"/"+pod.Name)
	default:
		reason, message := cpumanager.Refusal(err)
		if w.reject(lifecycle.Rejection{Reason: reason, Message: "Pod was rejected: " + message}) {
			w.kubelet.events.Pod(pod, nil, corev1.EventTypeWarning, reason, message)
		}
	}
}

// confine limits a new container to its CPUs.
func (w *worker) confine(container *runtimeapi.ContainerConfig) {
	container.Linux.Resources.CpusetCpus = w.kubelet.cpus.For(w.uid, container.GetMetadata().GetName()).String()
}
