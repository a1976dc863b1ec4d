package intern

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func status() *message[corev1.PodStatus] {
	return describe(aStatus, (*corev1.PodStatus).Unmarshal, map[int]decoder[corev1.PodStatus]{
		2:  many(condition(), func(p *corev1.PodStatus) *[]corev1.PodCondition { return &p.Conditions }),
		5:  common(func(p *corev1.PodStatus) *string { return &p.HostIP }),
		6:  text(func(p *corev1.PodStatus) *string { return &p.PodIP }),
		7:  someMoment(func(p *corev1.PodStatus) **metav1.Time { return &p.StartTime }),
		8:  many(containerStatus(), func(p *corev1.PodStatus) *[]corev1.ContainerStatus { return &p.ContainerStatuses }),
		10: many(containerStatus(), func(p *corev1.PodStatus) *[]corev1.ContainerStatus { return &p.InitContainerStatuses }),
		11: common(func(p *corev1.PodStatus) *string { return &p.NominatedNodeName }),
		12: many(podIP(), func(p *corev1.PodStatus) *[]corev1.PodIP { return &p.PodIPs }),
		13: many(containerStatus(), func(p *corev1.PodStatus) *[]corev1.ContainerStatus { return &p.EphemeralContainerStatuses }),
		16: group(hostIPs, (*corev1.PodStatus).Unmarshal, func(p *corev1.PodStatus) *[]corev1.HostIP { return &p.HostIPs }),
	})
}

func condition() *message[corev1.PodCondition] {
	return describe(aCondition, (*corev1.PodCondition).Unmarshal, map[int]decoder[corev1.PodCondition]{
		3: moment(func(c *corev1.PodCondition) *metav1.Time { return &c.LastProbeTime }),
		4: moment(func(c *corev1.PodCondition) *metav1.Time { return &c.LastTransitionTime }),
	})
}

func podIP() *message[corev1.PodIP] {
	return describe(aPodIP, (*corev1.PodIP).Unmarshal, map[int]decoder[corev1.PodIP]{
		1: text(func(i *corev1.PodIP) *string { return &i.IP }),
	})
}

func containerStatus() *message[corev1.ContainerStatus] {
	return describe(aContainerStatus, (*corev1.ContainerStatus).Unmarshal, map[int]decoder[corev1.ContainerStatus]{
		2:  one(state(), func(c *corev1.ContainerStatus) *corev1.ContainerState { return &c.State }),
		3:  one(state(), func(c *corev1.ContainerStatus) *corev1.ContainerState { return &c.LastTerminationState }),
		8:  text(func(c *corev1.ContainerStatus) *string { return &c.ContainerID }),
		12: many(statusMount(), func(c *corev1.ContainerStatus) *[]corev1.VolumeMountStatus { return &c.VolumeMounts }),
	})
}

func statusMount() *message[corev1.VolumeMountStatus] {
	return describe(aStatusMount, (*corev1.VolumeMountStatus).Unmarshal, map[int]decoder[corev1.VolumeMountStatus]{
		1: text(func(m *corev1.VolumeMountStatus) *string { return &m.Name }),
	})
}

func state() *message[corev1.ContainerState] {
	return describe(aState, (*corev1.ContainerState).Unmarshal, map[int]decoder[corev1.ContainerState]{
		2: some(running(), func(c *corev1.ContainerState) **corev1.ContainerStateRunning { return &c.Running }),
		3: some(terminated(), func(c *corev1.ContainerState) **corev1.ContainerStateTerminated { return &c.Terminated }),
	})
}

func running() *message[corev1.ContainerStateRunning] {
	return describe(aRunning, (*corev1.ContainerStateRunning).Unmarshal, map[int]decoder[corev1.ContainerStateRunning]{
		1: moment(func(r *corev1.ContainerStateRunning) *metav1.Time { return &r.StartedAt }),
	})
}

func terminated() *message[corev1.ContainerStateTerminated] {
	return describe(aTerminated, (*corev1.ContainerStateTerminated).Unmarshal, map[int]decoder[corev1.ContainerStateTerminated]{
		5: moment(func(s *corev1.ContainerStateTerminated) *metav1.Time { return &s.StartedAt }),
		6: moment(func(s *corev1.ContainerStateTerminated) *metav1.Time { return &s.FinishedAt }),
		7: text(func(s *corev1.ContainerStateTerminated) *string { return &s.ContainerID }),
	})
}
