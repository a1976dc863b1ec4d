package podspec

import (
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var mountPropagations = []corev1.MountPropagationMode{
	corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone,
}

// checkMounts checks a container's mounts. Upstream names neither the mount
// whose sub path nor the one whose propagation is wrong.
func checkMounts(ps *check.Problems, p *field.Path, c *corev1.Container, scope *scope) {
	seen := map[string]bool{}
	deviceNames := check.SetOf(c.VolumeDevices, func(d *corev1.VolumeDevice) string { return d.Name })
	devicePaths := check.SetOf(c.VolumeDevices, func(d *corev1.VolumeDevice) string { return d.DevicePath })
	for i, m := range c.VolumeMounts {
		name, path := p.Index(i).Child("name"), p.Index(i).Child("mountPath")
		ps.Required(name, m.Name)
		if scope.volumes[m.Name] == nil {
			ps.Add(field.NotFound(name, m.Name))
		}
		ps.Required(path, m.MountPath)
		ps.Valid(!seen[m.MountPath], path, m.MountPath, "must be unique")
		seen[m.MountPath] = true
		ps.Valid(!deviceNames[m.Name], name, m.Name, "must not already exist in volumeDevices")
		ps.Valid(!devicePaths[m.MountPath], path, m.MountPath, "must not already exist as a path in volumeDevices")
		if m.SubPath != "" {
			checkDescending(ps, p.Child("subPath"), m.SubPath)
		}
		if m.SubPathExpr != "" {
			ps.Valid(m.SubPath == "",
				p.Index(i).Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
			checkDescending(ps, p.Child("subPathExpr"), m.SubPathExpr)
		}
		checkPropagation(ps, p, &m, c)
	}
}

func checkPropagation(ps *check.Problems, p *field.Path, m *corev1.VolumeMount, c *corev1.Container) {
	if mode := m.MountPropagation; mode != nil {
		at := p.Child("mountPropagation")
		check.OneOf(ps, at, *mode, mountPropagations...)
		ps.Allowed(*mode != corev1.MountPropagationBidirectional || privileged(c.SecurityContext),
			at, "Bidirectional mount propagation is available only to privileged containers")
	}
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return
	}
	at := p.Child("recursiveReadOnly")
	if mode := *m.RecursiveReadOnly; mode != corev1.RecursiveReadOnlyEnabled && mode != corev1.RecursiveReadOnlyIfPossible {
		check.OneOf(ps, at, mode, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
		return
	}
	ps.Allowed(m.ReadOnly, at, "may only be specified when readOnly is true")
	ps.Allowed(m.MountPropagation == nil || *m.MountPropagation == corev1.MountPropagationNone,
		at, "may only be specified when mountPropagation is None or not specified")
}

// checkDevices checks raw block devices.
func checkDevices(ps *check.Problems, p *field.Path, c *corev1.Container, scope *scope) {
	ps.Allowed(len(c.VolumeDevices) == 0 || hostUsers(scope.spec), p, "when `hostUsers` is false")
	names, paths := check.Seen[string]{}, check.Seen[string]{}
	mountNames := check.SetOf(c.VolumeMounts, func(m *corev1.VolumeMount) string { return m.Name })
	mountPaths := check.SetOf(c.VolumeMounts, func(m *corev1.VolumeMount) string { return m.MountPath })
	for i, d := range c.VolumeDevices {
		name, path := p.Index(i).Child("name"), p.Index(i).Child("devicePath")
		ps.Required(name, d.Name)
		ps.Valid(!names.Again(d.Name) || d.Name == "",
			name, d.Name, "must be unique")
		if v := scope.volumes[d.Name]; v == nil {
			ps.Add(field.NotFound(name, d.Name))
		} else if v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			ps.Add(field.Invalid(name, d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		ps.Required(path, d.DevicePath)
		ps.Valid(!paths.Again(d.DevicePath),
			path, d.DevicePath, "must be unique")
		var climbs check.Problems
		checkBacksteps(&climbs, path, d.DevicePath)
		ps.Valid(len(climbs.List) == 0, path, d.DevicePath, "can not contain backsteps ('..')")
		ps.Valid(!mountNames[d.Name], name, d.Name, "must not already exist in volumeMounts")
		ps.Valid(!mountPaths[d.DevicePath], path, d.DevicePath, "must not already exist as a path in volumeMounts")
	}
}
