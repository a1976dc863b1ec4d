package volumes

import (
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxWritten bounds the files in the volumes of a pod that the kubelet writes, in bytes. They take the
	// memory of the node, and not the pod's; a secret or config map of 1 MiB can be in a pod any number of
	// times. A file takes at least a page.
	maxWritten = 64 << 20
	pageSize   = 4 << 10
	// maxMounts bounds the mounts that a pod has on the node, for volumes in memory and for subPaths: 110
	// pods leave a third of the 100,000 mounts that the kernel allows (fs.mount-max) to containers.
	maxMounts = 600
)

var errTooMuchWritten = errors.New("the files of config maps, secrets, tokens and fields in the volumes of the pod take more than 64 MiB")

// content collects the files of a volume.
type content struct {
	volume *Volume
	files  map[string]File
}

func (c *content) add(path string, data []byte, mode fs.FileMode) error {
	return c.put(path, File{Data: data, Mode: mode})
}

// put adds a file, unless the pod has too many.
func (c *content) put(path string, f File) error {
	v := c.volume
	if v.written == nil {
		v.written = new(int)
	}
	if *v.written += max(pageSize, len(f.Data)); *v.written > maxWritten {
		return errTooMuchWritten
	}
	c.files[path] = f
	return nil
}

// checkMounts returns an error if a pod takes too many mounts.
func checkMounts(pod *corev1.Pod) error {
	n := 0
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory {
			n++
		}
	}
	count := func(mounts []corev1.VolumeMount) {
		for i := range mounts {
			if mounts[i].SubPath != "" || mounts[i].SubPathExpr != "" {
				n++
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		count(pod.Spec.InitContainers[i].VolumeMounts)
	}
	for i := range pod.Spec.Containers {
		count(pod.Spec.Containers[i].VolumeMounts)
	}
	for i := range pod.Spec.EphemeralContainers {
		count(pod.Spec.EphemeralContainers[i].VolumeMounts)
	}
	if n > maxMounts {
		return fmt.Errorf("the pod takes %d mounts for volumes in memory and subPaths, more than %d", n, maxMounts)
	}
	return nil
}
