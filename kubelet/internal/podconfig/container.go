package podconfig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Container returns the CRI configuration of a container. It creates the files that are
// mounted into the container. A container with a target, which is the ID of another container, sees
// the processes of that one.
func (b *Builder) Container(ctx context.Context, pod *corev1.Pod, c *corev1.Container, attempt uint32, image *runtimeapi.Image, volumes Volumes, target string) (*runtimeapi.ContainerConfig, error) {
	env, err := b.environment(ctx, pod, c, volumes)
	if err != nil {
		return nil, err
	}
	rights, err := b.security(pod, c, image)
	if err != nil {
		return nil, err
	}
	if target != "" {
		rights.NamespaceOptions.Pid, rights.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, target
	}
	mounts, err := b.mounts(pod, c, attempt, env, volumes)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		m.UidMappings = rights.NamespaceOptions.UsernsOptions.GetUids()
		m.GidMappings = rights.NamespaceOptions.UsernsOptions.GetGids()
	}
	if err := os.MkdirAll(filepath.Join(b.LogDirectory(pod), c.Name), 0o755); err != nil {
		return nil, fmt.Errorf("create container log directory for container %s failed: %w", c.Name, err)
	}
	command, arguments := expandAll(c.Command, env.lookup, &env.left), expandAll(c.Args, env.lookup, &env.left)
	if err := env.left.err(); err != nil {
		return nil, err
	}
	resources := b.Resources(pod, c)
	resources.HugepageLimits = hugePageLimits(pod, c, b.HugePageSizes())
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: attempt},
		Image:       &runtimeapi.ImageSpec{Image: image.GetId(), UserSpecifiedImage: c.Image},
		Command:     command,
		Args:        arguments,
		WorkingDir:  c.WorkingDir,
		Envs:        env.list(),
		Mounts:      mounts,
		Labels:      b.containerLabels(pod, c),
		Annotations: containerAnnotations(pod, c),
		LogPath:     filepath.Join(c.Name, fmt.Sprintf("%d.log", attempt)),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  stopSignal(c),
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       resources,
			SecurityContext: rights,
		},
	}, nil
}

// Resources returns the cgroup settings of a container. A cpu limit without a request is also the
// request.
func (b *Builder) Resources(pod *corev1.Pod, c *corev1.Container) *runtimeapi.LinuxContainerResources {
	cpu, requested := c.Resources.Requests[corev1.ResourceCPU]
	if !requested {
		cpu = c.Resources.Limits[corev1.ResourceCPU]
	}
	capacity := b.Capacity()
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          qos.CPUShares(cpu.MilliValue()),
		MemoryLimitInBytes: c.Resources.Limits.Memory().Value(),
		OomScoreAdj:        qos.OOMScore(pod, c, capacity.Memory().Value()),
	}
	// Allow no swap in addition to the memory.
	r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	if b.KillTogether != nil && b.KillTogether() {
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	r.CpuQuota, r.CpuPeriod = b.CPU.Quota(c.Resources.Limits.Cpu().MilliValue())
	return r
}

// MessageFile returns the path of the termination message file of a container. It is of no use when the container is
// removed.
func (b *Builder) MessageFile(pod types.UID, container string, attempt uint32) string {
	return filepath.Join(b.PodDirectory(pod), "containers", container, fmt.Sprint(attempt))
}

// messageFile creates the empty termination message file of a container. Any user may write it,
// because the container may run as any user.
func (b *Builder) messageFile(pod *corev1.Pod, c *corev1.Container, attempt uint32) (string, error) {
	path := b.MessageFile(pod.UID, c.Name, attempt)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", err
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return "", err
	}
	// Chmod, because the umask applies above.
	return path, os.Chmod(path, 0o666)
}

// stopSignal returns the stop signal of a container; zero means that of its image, or TERM.
func stopSignal(c *corev1.Container) runtimeapi.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_RUNTIME_DEFAULT
	}
	return runtimeapi.Signal(runtimeapi.Signal_value[string(*c.Lifecycle.StopSignal)])
}
