package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// hostPath is a file or directory of the host.
type hostPath struct{}

func (hostPath) Name() string                   { return "kubernetes.io/host-path" }
func (hostPath) Supports(v *corev1.Volume) bool { return v.HostPath != nil }

func (hostPath) SupportsPersistent(v *corev1.PersistentVolume) bool { return v.Spec.HostPath != nil }

func (hostPath) SetUp(_ context.Context, v *Volume) (string, error) {
	source := v.Spec.HostPath
	if v.Persistent != nil {
		source = v.Persistent.Spec.HostPath
	}
	return source.Path, checkHostPath(source)
}

// hostPathNames are the names of types in Kubernetes' messages.
var hostPathNames = map[corev1.HostPathType]string{
	corev1.HostPathDirectoryOrCreate: "directory",
	corev1.HostPathDirectory:         "directory",
	corev1.HostPathFileOrCreate:      "file",
	corev1.HostPathFile:              "file",
	corev1.HostPathSocket:            "socket file",
	corev1.HostPathCharDev:           "character device",
	corev1.HostPathBlockDev:          "block device",
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
	case missing:
		return fmt.Errorf("hostPath type check failed: %s is not a %s", v.Path, hostPathNames[kind])
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
		return fmt.Errorf("hostPath type check failed: %s is not a %s", v.Path, hostPathNames[kind])
	}
	return nil
}
