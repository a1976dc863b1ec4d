package podconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/volumes/subpath"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Volumes says what the containers of a pod mount, by the name of the volume.
type Volumes struct {
	// Paths are on the host.
	Paths map[string]string
	// Images are mounted by the runtime; the path of such a volume is empty.
	Images map[string]*runtimeapi.ImageSpec
}

// mounts returns the container's volume mounts, its hosts file and its termination message file.
func (b *Builder) mounts(pod *corev1.Pod, c *corev1.Container, attempt uint32, env *variables, volumes Volumes) ([]*runtimeapi.Mount, error) {
	propagations := map[corev1.MountPropagationMode]runtimeapi.MountPropagation{
		corev1.MountPropagationHostToContainer: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
		corev1.MountPropagationBidirectional:   runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL,
	}
	var list []*runtimeapi.Mount
	hosts, fixed := false, readOnlyVolumes(pod)
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		volume, ok := volumes.Paths[m.Name]
		if !ok {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, c.Name)
		}
		mount := &runtimeapi.Mount{Readonly: m.ReadOnly || fixed[m.Name], Image: volumes.Images[m.Name]}
		part, err := subPath(m, env)
		if err != nil {
			return nil, err
		}
		if mount.Image != nil {
			mount.ImageSubPath, mount.Readonly = part, true
		} else if mount.HostPath, err = b.partOf(pod, c, i, volume, part); err != nil {
			return nil, err
		}
		path := m.MountPath
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		mount.ContainerPath = path
		if mount.RecursiveReadOnly, err = lifecycle.RecursiveReadOnly(m, b.RecursiveReadOnly(pod)); err != nil {
			return nil, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
		}
		if m.MountPropagation != nil {
			mount.Propagation = propagations[*m.MountPropagation]
		}
		hosts = hosts || path == hostsPath
		list = append(list, mount)
	}
	if !hosts {
		path, err := b.writeHosts(pod)
		if err != nil {
			return nil, err
		}
		list = append(list, &runtimeapi.Mount{ContainerPath: hostsPath, HostPath: path})
	}
	words, err := b.messageFile(pod, c, attempt)
	if err != nil {
		return nil, fmt.Errorf("error on creating termination-log file: %w", err)
	}
	return append(list, &runtimeapi.Mount{ContainerPath: messagePath(c), HostPath: words}), nil
}

// RecursiveReadOnly reports whether the runtime handler of a pod supports recursive read-only mounts.
func (b *Builder) RecursiveReadOnly(pod *corev1.Pod) bool {
	handler, err := b.Handler(pod)
	return err == nil && b.Abilities.RecursiveReadOnlyMounts(handler)
}

// readOnlyVolumes returns the volumes that containers can only read: those whose files the kubelet
// writes, or whose claim the pod uses for reading only.
func readOnlyVolumes(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		names[v.Name] = names[v.Name] || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil ||
			v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
	}
	return names
}

// partOf returns the path on the host of the part of a volume that the mount with index i shows: the
// volume itself, or its subPath. Users see no details of an error, because they would reveal what is
// on the host.
func (b *Builder) partOf(pod *corev1.Pod, c *corev1.Container, i int, volume, path string) (string, error) {
	if path == "" {
		return volume, nil
	}
	m := &c.VolumeMounts[i]
	directory := filepath.Join(b.PodDirectory(pod.UID), "volume-subpaths", m.Name, c.Name)
	err := os.MkdirAll(directory, 0o750)
	mounted := ""
	if err == nil {
		mounted, err = subpath.Mount(volume, path, filepath.Join(directory, strconv.Itoa(i)))
	}
	if err != nil {
		b.Log.Error(err, "subPath not mounted", "pod", pod.Namespace+"/"+pod.Name, "container", c.Name, "volume", m.Name, "subPath", path)
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", m.Name, c.Name)
	}
	return mounted, nil
}

// subPath returns the path within a volume that a mount shows, with its variables expanded; empty means
// the whole volume.
func subPath(m *corev1.VolumeMount, env *variables) (string, error) {
	path := m.SubPath
	if m.SubPathExpr != "" {
		var missing error // about the first: an expression can name many
		path = expand(m.SubPathExpr, func(name string) (string, bool) {
			value, ok := env.lookup(name)
			if !ok && missing == nil {
				missing = fmt.Errorf("missing value for %q", name)
			}
			return value, ok
		}, &env.left)
		if err := env.left.err(); err != nil {
			return "", err
		}
		if missing != nil {
			return "", missing
		}
	}
	if path == "" {
		return "", nil
	}
	switch err := subpath.Check(path); {
	case errors.Is(err, subpath.ErrAbsolute):
		return "", fmt.Errorf("error SubPath `%s` %w", path, err)
	case err != nil:
		return "", fmt.Errorf("unable to provision SubPath `%s`: %w", path, err)
	}
	return path, nil
}
