package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func (k *Kubelet) podDirectory(uid podUID) string {
	return filepath.Join(k.config.Root, "pods", string(uid))
}

// volumeDirectory returns the directory of a volume of a pod, such as
// volumes/kubernetes.io~PLUGIN/NAME.
func (k *Kubelet) volumeDirectory(uid podUID, plugin, name string) string {
	return filepath.Join(k.podDirectory(uid), "volumes", "kubernetes.io~"+plugin, name)
}

// volumeError names the volume of a pod that could not be set up.
type volumeError struct {
	volume string
	err    error
}

func (e *volumeError) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.volume, e.err)
}

func (e *volumeError) Unwrap() error { return e.err }

// mountHeldError means that volumes could not be set up and are not retried before until.
type mountHeldError struct{ until time.Time }

func (e *mountHeldError) Error() string {
	return "volumes are not set up again before " + e.until.Format(time.RFC3339Nano)
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
	paths := map[string]string{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		path, err := k.setUpVolume(ctx, pod, v)
		if err != nil {
			return nil, &volumeError{volume: v.Name, err: err}
		}
		paths[v.Name] = path
	}
	return paths, nil
}

func (k *Kubelet) setUpVolume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.HostPath != nil:
		return v.HostPath.Path, checkHostPath(v.HostPath)
	case v.EmptyDir != nil:
		return k.setUpEmptyDir(pod, v)
	case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil:
		plugin, sources, mode := projection(v)
		directory := k.volumeDirectory(pod.UID, plugin, v.Name)
		files, err := k.project(ctx, pod, v.Name, sources, mode)
		if err != nil {
			return "", err
		}
		secret := plugin == "secret" || plugin == "projected"
		if err := makeVolume(directory, secret && os.Geteuid() == 0, 0, 0o755); err != nil {
			return "", err
		}
		return directory, writeAtomically(directory, files, fsGroup(pod))
	}
	return "", errors.New("this kind of volume is not supported by this kubelet")
}

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// setUpEmptyDir creates a directory that any user of the pod may write to.
func (k *Kubelet) setUpEmptyDir(pod *corev1.Pod, v *corev1.Volume) (string, error) {
	directory := k.volumeDirectory(pod.UID, "empty-dir", v.Name)
	memory := v.EmptyDir.Medium == corev1.StorageMediumMemory
	if v.EmptyDir.Medium != corev1.StorageMediumDefault && !memory {
		return "", fmt.Errorf("medium %q is not supported by this kubelet", v.EmptyDir.Medium)
	}
	var size int64
	if v.EmptyDir.SizeLimit != nil {
		size = v.EmptyDir.SizeLimit.Value()
	}
	if err := makeVolume(directory, memory, size, 0o777); err != nil {
		return "", err
	}
	if group := fsGroup(pod); group != nil {
		if err := os.Chown(directory, -1, int(*group)); err != nil {
			return "", err
		}
		return directory, os.Chmod(directory, 0o777|fs.ModeSetgid)
	}
	return directory, nil
}

// makeVolume creates a directory, in memory if requested, unless it exists.
func makeVolume(directory string, memory bool, size int64, mode fs.FileMode) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	if mounted, err := isMountPoint(directory); err != nil {
		return err
	} else if memory && !mounted {
		options := ""
		if size > 0 {
			options = fmt.Sprintf("size=%d", size)
		}
		err := mountMemory(directory, options)
		// Without root, mounting is not possible, and the containers of tests do not notice the
		// difference.
		if err != nil && os.Geteuid() == 0 {
			return fmt.Errorf("mount tmpfs: %w", err)
		}
	}
	return os.Chmod(directory, mode)
}

// isMountPoint reports whether path is a mount point: it is on another device than its parent.
func isMountPoint(path string) (bool, error) {
	var here, parent syscall.Stat_t
	if err := syscall.Lstat(path, &here); err != nil {
		return false, err
	}
	if err := syscall.Lstat(filepath.Dir(path), &parent); err != nil {
		return false, err
	}
	return here.Dev != parent.Dev, nil
}

func checkHostPath(v *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if v.Type != nil {
		kind = *v.Type
	}
	info, err := os.Stat(v.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case kind == corev1.HostPathUnset:
		return nil
	case kind == corev1.HostPathDirectoryOrCreate && missing:
		return os.MkdirAll(v.Path, 0o755)
	case kind == corev1.HostPathFileOrCreate && missing:
		file, err := os.OpenFile(v.Path, os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		return file.Close()
	case err != nil:
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	is := map[corev1.HostPathType]bool{
		corev1.HostPathDirectoryOrCreate: info.IsDir(),
		corev1.HostPathDirectory:         info.IsDir(),
		corev1.HostPathFileOrCreate:      info.Mode().IsRegular(),
		corev1.HostPathFile:              info.Mode().IsRegular(),
		corev1.HostPathSocket:            info.Mode()&fs.ModeSocket != 0,
		corev1.HostPathCharDev:           info.Mode()&fs.ModeCharDevice != 0,
		corev1.HostPathBlockDev:          info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0,
	}
	if !is[kind] {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", v.Path, kind)
	}
	return nil
}

// unmountVolumes unmounts everything below a pod's directory, innermost first. It uses the kernel's
// list of mounts, not the pod's volumes.
func (k *Kubelet) unmountVolumes(uid podUID) error {
	points, err := mountsBelow(k.podDirectory(uid))
	if err != nil {
		return err
	}
	var errs []error
	for i := len(points) - 1; i >= 0; i-- {
		if err := unmount(points[i]); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", points[i], err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow returns the mount points below directory in the order of mounting.
func mountsBelow(directory string) ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // not Linux, and nothing was mounted (see mountMemory)
	}
	if err != nil {
		return nil, err
	}
	return parseMounts(string(table), directory), nil
}

// parseMounts parses mountinfo (proc(5)): the fifth field is the mount point, with octal escapes
// for spaces.
func parseMounts(table, directory string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape.Replace(fields[4]); strings.HasPrefix(point, directory+"/") {
			points = append(points, point)
		}
	}
	return points
}

// removePodDirectory removes the directory of a pod. Nothing may be mounted below it: the contents
// of a mount must not be deleted.
func (k *Kubelet) removePodDirectory(uid podUID) error {
	if err := k.unmountVolumes(uid); err != nil {
		return err
	}
	return os.RemoveAll(k.podDirectory(uid))
}
