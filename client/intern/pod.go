package intern

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind distinguishes parts of different types.
type kind int

const (
	aString kind = iota
	aPod
	aMeta
	labels
	annotations
	fieldsEntry
	aSpec
	volumes
	containers
	initContainers
	ephemeralContainers
	affinity
	aVolume
	aContainer
	aMount
	aStatus
	hostIPs
	aCondition
	aPodIP
	aContainerStatus
	aStatusMount
	aState
	aRunning
	aTerminated
)

// UnmarshalPod decodes data into pod, which must be empty, like pod.Unmarshal. It shares the parts
// that other pods had, and these must not be changed. It retains no part of data.
func (t *Table) UnmarshalPod(data []byte, pod *corev1.Pod) error {
	*pod = corev1.Pod{}
	if t.pod(data, pod) {
		return nil
	}
	*pod = corev1.Pod{}
	return pod.Unmarshal(data)
}

func (t *Table) pod(data []byte, pod *corev1.Pod) bool {
	s := t.take()
	defer s.mu.Unlock()
	defer s.forget()
	if !t.message.decode(s, pod, data) {
		return false
	}
	s.release()
	return true
}

// The numbers are those of generated.proto in k8s.io/api/core/v1 and
// k8s.io/apimachinery/pkg/apis/meta/v1.

// podMessage describes a pod. The descriptions are functions so that a program that makes no Table
// neither links them nor spends time on them when it starts.
func podMessage() *message[corev1.Pod] {
	return describe(aPod, (*corev1.Pod).Unmarshal, map[int]decoder[corev1.Pod]{
		1: one(meta(), func(p *corev1.Pod) *metav1.ObjectMeta { return &p.ObjectMeta }),
		2: spec(),
		3: one(status(), func(p *corev1.Pod) *corev1.PodStatus { return &p.Status }),
	})
}

func meta() *message[metav1.ObjectMeta] {
	return describe(aMeta, (*metav1.ObjectMeta).Unmarshal, map[int]decoder[metav1.ObjectMeta]{
		1:  text(func(m *metav1.ObjectMeta) *string { return &m.Name }),
		5:  text(func(m *metav1.ObjectMeta) *string { return (*string)(&m.UID) }),
		6:  text(func(m *metav1.ObjectMeta) *string { return &m.ResourceVersion }),
		8:  moment(func(m *metav1.ObjectMeta) *metav1.Time { return &m.CreationTimestamp }),
		9:  someMoment(func(m *metav1.ObjectMeta) **metav1.Time { return &m.DeletionTimestamp }),
		11: dictionary(labels, func(m *metav1.ObjectMeta) *map[string]string { return &m.Labels }),
		12: dictionary(annotations, func(m *metav1.ObjectMeta) *map[string]string { return &m.Annotations }),
		17: many(managedFields(), func(m *metav1.ObjectMeta) *[]metav1.ManagedFieldsEntry { return &m.ManagedFields }),
	})
}

func managedFields() *message[metav1.ManagedFieldsEntry] {
	return describe(fieldsEntry, (*metav1.ManagedFieldsEntry).Unmarshal, map[int]decoder[metav1.ManagedFieldsEntry]{
		4: someMoment(func(m *metav1.ManagedFieldsEntry) **metav1.Time { return &m.Time }),
	})
}

// tokenVolume begins the name of the volume that the ServiceAccount admission adds. The name
// differs between pods, so that no two pods have equal lists of volumes or equal mounts in their
// containers.
var tokenVolume = []byte("kube-api-access-")

// spec returns the decoder of a spec, with whole containers if they can be equal to those of other
// pods.
func spec() decoder[corev1.Pod] {
	whole := wholeSpec()
	token := tokenSpec(whole)
	return func(s *shard, p *corev1.Pod, o occurrence) bool {
		m := whole
		if hasToken(o.value) {
			m = token
		}
		return o.count == 1 && m.decode(s, &p.Spec, o.value)
	}
}

// hasToken searches the first fields of a spec, where volumes are, for a volume with a token.
func hasToken(spec []byte) bool {
	for at := 0; at < len(spec); {
		f, ok := next(spec, at)
		if !ok || f.number != 1 || f.kind != lengthDelimited || f.body == f.end {
			return false
		}
		if name, ok := next(spec[:f.end], f.body); ok && name.number == 1 && bytes.HasPrefix(spec[name.body:name.end], tokenVolume) {
			return true
		}
		at = f.end
	}
	return false
}

func specGroup[V any](k kind, get func(*corev1.PodSpec) *V) decoder[corev1.PodSpec] {
	return group(k, (*corev1.PodSpec).Unmarshal, get)
}

// wholeSpec describes the spec of a pod without a token.
func wholeSpec() *message[corev1.PodSpec] {
	return describe(aSpec, (*corev1.PodSpec).Unmarshal, map[int]decoder[corev1.PodSpec]{
		1:  specGroup(volumes, func(p *corev1.PodSpec) *[]corev1.Volume { return &p.Volumes }),
		2:  specGroup(containers, func(p *corev1.PodSpec) *[]corev1.Container { return &p.Containers }),
		10: common(func(p *corev1.PodSpec) *string { return &p.NodeName }),
		16: text(func(p *corev1.PodSpec) *string { return &p.Hostname }),
		18: specGroup(affinity, func(p *corev1.PodSpec) **corev1.Affinity { return &p.Affinity }),
		20: specGroup(initContainers, func(p *corev1.PodSpec) *[]corev1.Container { return &p.InitContainers }),
		34: specGroup(ephemeralContainers, func(p *corev1.PodSpec) *[]corev1.EphemeralContainer { return &p.EphemeralContainers }),
	})
}

// tokenSpec describes the spec of a pod with a token. whole is that of a pod without one.
func tokenSpec(whole *message[corev1.PodSpec]) *message[corev1.PodSpec] {
	return describe(aSpec, (*corev1.PodSpec).Unmarshal, map[int]decoder[corev1.PodSpec]{
		1:  many(volume(), func(p *corev1.PodSpec) *[]corev1.Volume { return &p.Volumes }),
		2:  many(container(), func(p *corev1.PodSpec) *[]corev1.Container { return &p.Containers }),
		10: whole.own[10],
		16: whole.own[16],
		18: whole.own[18],
		20: many(container(), func(p *corev1.PodSpec) *[]corev1.Container { return &p.InitContainers }),
		34: whole.own[34],
	})
}

func volume() *message[corev1.Volume] {
	return describe(aVolume, (*corev1.Volume).Unmarshal, map[int]decoder[corev1.Volume]{
		1: text(func(v *corev1.Volume) *string { return &v.Name }),
	})
}

func container() *message[corev1.Container] {
	return describe(aContainer, (*corev1.Container).Unmarshal, map[int]decoder[corev1.Container]{
		9: many(mount(), func(c *corev1.Container) *[]corev1.VolumeMount { return &c.VolumeMounts }),
	})
}

func mount() *message[corev1.VolumeMount] {
	return describe(aMount, (*corev1.VolumeMount).Unmarshal, map[int]decoder[corev1.VolumeMount]{
		1: text(func(m *corev1.VolumeMount) *string { return &m.Name }),
	})
}
