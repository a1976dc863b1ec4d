package kubelet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
)

func (k *Kubelet) podDirectory(uid podUID) string {
	return filepath.Join(k.config.Root, "pods", string(uid))
}

// mountHeldError means that volumes could not be set up and are not retried before until.
type mountHeldError struct{ until time.Time }

func (e *mountHeldError) Error() string {
	return "volumes are not set up again before " + e.until.Format(time.RFC3339Nano)
}

// newVolumes returns the configured types of volumes before the built-in ones.
func (k *Kubelet) newVolumes() (*volumes.Set, error) {
	return volumes.NewSet(slices.Concat(k.config.Volumes, volumes.Builtin(volumes.Sources{
		ConfigMap: k.configMap,
		Secret:    k.secret,
		Token:     k.token,
		Field:     func(pod *corev1.Pod, path string) (string, error) { return podField(pod, path, k.config) },
		ResourceField: func(pod *corev1.Pod, r *corev1.ResourceFieldSelector) (string, error) {
			return resourceField(pod, nil, r, k.capacity())
		},
	}))...)
}

// setUpVolumes creates or refreshes a pod's directories and volumes. It returns the host path of
// each volume by name.
func (k *Kubelet) setUpVolumes(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	if err := os.MkdirAll(k.podDirectory(pod.UID), 0o750); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(k.logDirectory(pod), 0o755); err != nil {
		return nil, err
	}
	return k.volumes.SetUp(ctx, pod, k.podDirectory(pod.UID))
}

// tearDownVolumes undoes setUpVolumes, except for the directories. It needs only what is on the
// disk.
func (k *Kubelet) tearDownVolumes(ctx context.Context, uid podUID) error {
	return k.volumes.TearDown(ctx, k.podDirectory(uid))
}

// removePodDirectory removes the directory of a pod. Nothing may be mounted below it: the contents
// of a mount must not be deleted.
func (k *Kubelet) removePodDirectory(ctx context.Context, uid podUID) error {
	if err := k.tearDownVolumes(ctx, uid); err != nil {
		return err
	}
	return os.RemoveAll(k.podDirectory(uid))
}
