package intern

import (
	"encoding/binary"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Meta has the metadata of an object share what many objects have in common.
func (t *Table) Meta(m *metav1.ObjectMeta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.meta(m)
}

// Pod has a pod share what it has in common with other pods, above all with
// those of the same template, and returns it.
func (t *Table) Pod(p *corev1.Pod) *corev1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	share(t, &p.Kind, &p.APIVersion)
	t.meta(&p.ObjectMeta)
	t.spec(&p.Spec)
	t.status(&p.Status)
	return p
}

func (t *Table) meta(m *metav1.ObjectMeta) {
	share(t, &m.Namespace, &m.GenerateName)
	m.Labels = t.dictionary(labels, m.Labels)
	m.Annotations = t.dictionary(annotations, m.Annotations)
	m.OwnerReferences = shareSlice(t, owners, m.OwnerReferences)
	for i := range m.Finalizers {
		share(t, &m.Finalizers[i])
	}
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		share(t, &f.Manager, &f.APIVersion, &f.FieldsType, &f.Subresource)
		share(t, &f.Operation)
		if f.FieldsV1 != nil {
			t.begin(fields)
			t.key = append(t.key, f.FieldsV1.GetRawBytes()...)
			f.FieldsV1 = shared(t, f.FieldsV1)
		}
	}
}

// dictionary shares a whole map, or else its keys.
func (t *Table) dictionary(k kind, m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	var some [16]string
	keys := some[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	t.begin(k)
	for _, key := range keys {
		for _, s := range []string{key, m[key]} {
			t.key = binary.AppendUvarint(t.key, uint64(len(s)))
			t.key = append(t.key, s...)
		}
	}
	if known, ok := t.parts.get(t.key); ok {
		return known.(map[string]string)
	}
	key := string(t.key)
	own := make(map[string]string, len(m))
	for k, v := range m {
		share(t, &k, &v)
		own[k] = v
	}
	t.parts.put(key, own)
	return own
}

func (t *Table) spec(s *corev1.PodSpec) {
	node, vs := s.NodeName, s.Volumes
	all, initial, ephemeral := s.Containers, s.InitContainers, s.EphemeralContainers
	s.NodeName, s.Volumes = "", nil
	s.Containers, s.InitContainers, s.EphemeralContainers = nil, nil, nil
	// What is left is the same for all pods of a template.
	t.begin(specs)
	if t.add(s) {
		replace(t, s)
	}
	share(t, &node)
	s.NodeName = node
	s.Volumes = t.volumes(vs)
	s.Containers, s.InitContainers = t.containers(all), t.containers(initial)
	s.EphemeralContainers = ephemeral
}

// tokenVolume begins the name of the volume that the ServiceAccount admission
// adds. Each pod's has another name, which keeps the pod's list of volumes, and
// the mounts of its containers, from being equal to any other's.
const tokenVolume = "kube-api-access-"

func (t *Table) volumes(all []corev1.Volume) []corev1.Volume {
	if !slices.ContainsFunc(all, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, tokenVolume) }) {
		return shareSlice(t, volumes, all)
	}
	for i := range all {
		t.begin(volumeSources)
		if t.add(&all[i].VolumeSource) {
			replace(t, &all[i].VolumeSource)
		}
	}
	return exact(all)
}

// containers shares all of the containers if they are equal to others, or else
// what each has beside its mounts.
func (t *Table) containers(all []corev1.Container) []corev1.Container {
	own := false
	for i := range all {
		c := &all[i]
		ms := c.VolumeMounts
		own = own || slices.ContainsFunc(ms, func(m corev1.VolumeMount) bool { return strings.HasPrefix(m.Name, tokenVolume) })
		c.VolumeMounts = nil
		t.begin(containers)
		if t.add(c) {
			replace(t, c)
		}
		c.VolumeMounts = t.mounts(ms)
	}
	if own {
		return exact(all)
	}
	return shareSlice(t, allContainers, all)
}

func (t *Table) mounts(all []corev1.VolumeMount) []corev1.VolumeMount {
	for i := range all {
		if strings.HasPrefix(all[i].Name, tokenVolume) {
			for i := range all {
				share(t, &all[i].MountPath, &all[i].SubPath, &all[i].SubPathExpr)
			}
			return exact(all)
		}
	}
	return shareSlice(t, mounts, all)
}

func (t *Table) status(s *corev1.PodStatus) {
	share(t, &s.Phase)
	share(t, &s.QOSClass)
	share(t, &s.HostIP, &s.Reason)
	s.HostIPs = shareSlice(t, hostIPs, s.HostIPs)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		share(t, &c.Type)
		share(t, &c.Status)
		share(t, &c.Reason, &c.Message)
	}
	s.Conditions = exact(s.Conditions)
	if len(s.PodIPs) == 1 && s.PodIPs[0].IP == s.PodIP {
		s.PodIPs[0].IP = s.PodIP
	}
	for _, all := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range all {
			c := &all[i]
			share(t, &c.Name, &c.Image, &c.ImageID)
			if w := c.State.Waiting; w != nil {
				share(t, &w.Reason)
			}
			if d := c.State.Terminated; d != nil {
				share(t, &d.Reason)
			}
			if d := c.LastTerminationState.Terminated; d != nil {
				share(t, &d.Reason)
			}
			c.VolumeMounts = shareSlice(t, statusMounts, c.VolumeMounts)
			t.started(c)
		}
	}
	s.ContainerStatuses = exact(s.ContainerStatuses)
}

// started shares what a status says that its spec says as well.
func (t *Table) started(c *corev1.ContainerStatus) {
	if c.Started != nil {
		if *c.Started {
			c.Started = &t.bools[1]
		} else {
			c.Started = &t.bools[0]
		}
	}
	if c.Resources != nil {
		t.begin(resources)
		if t.add(c.Resources) {
			c.Resources = shared(t, c.Resources)
		}
	}
	if len(c.AllocatedResources) > 0 {
		all := &corev1.ResourceRequirements{Limits: c.AllocatedResources}
		t.begin(resources)
		if t.add(all) {
			c.AllocatedResources = shared(t, all).Limits
		}
	}
}

// exact returns all without the room that a decoder leaves behind it.
func exact[T any](all []T) []T {
	if cap(all) == len(all) {
		return all
	}
	return append(make([]T, 0, len(all)), all...)
}
