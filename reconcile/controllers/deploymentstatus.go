package controllers

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons that kubectl rollout status knows.
const (
	reasonAvailable   = "MinimumReplicasAvailable"
	reasonUnavailable = "MinimumReplicasUnavailable"
	reasonComplete    = "NewReplicaSetAvailable"
	reasonCreated     = "NewReplicaSetCreated"
	reasonUpdated     = "ReplicaSetUpdated"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
)

// deploymentStatus counts the ReplicaSets as they were when plan was made.
func deploymentStatus(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, plan deploymentPlan, now time.Time) appsv1.DeploymentStatus {
	s := appsv1.DeploymentStatus{
		ObservedGeneration:  d.Generation,
		CollisionCount:      d.Status.CollisionCount,
		TerminatingReplicas: d.Status.TerminatingReplicas,
		Conditions:          slices.Clone(d.Status.Conditions),
	}
	var total int32
	for _, rs := range sets {
		total += value(rs.Spec.Replicas, 1)
		s.Replicas += rs.Status.Replicas
		s.ReadyReplicas += rs.Status.ReadyReplicas
		s.AvailableReplicas += rs.Status.AvailableReplicas
	}
	if plan.current != nil {
		s.UpdatedReplicas = plan.current.Status.Replicas
	}
	s.UnavailableReplicas = max(0, total-s.AvailableReplicas)

	_, unavailable := bounds(d)
	if s.AvailableReplicas >= value(d.Spec.Replicas, 1)-unavailable {
		setDeploymentCondition(&s, now, appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonAvailable,
			"Deployment has minimum availability.")
	} else {
		setDeploymentCondition(&s, now, appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonUnavailable,
			"Deployment does not have minimum availability.")
	}
	if d.Spec.ProgressDeadlineSeconds != nil {
		progress(d, &s, plan, now)
	}
	return s
}

// progress sets the Progressing condition.
func progress(d *appsv1.Deployment, s *appsv1.DeploymentStatus, plan deploymentPlan, now time.Time) {
	set := func(status corev1.ConditionStatus, reason, message string) {
		setDeploymentCondition(s, now, appsv1.DeploymentProgressing, status, reason, message)
	}
	had := deploymentCondition(s.Conditions, appsv1.DeploymentProgressing)
	subject := fmt.Sprintf("Deployment %q", d.Name)
	if plan.current != nil {
		subject = fmt.Sprintf("ReplicaSet %q", plan.current.Name)
	}
	switch {
	case d.Spec.Paused:
		if had == nil || had.Reason != reasonComplete {
			set(corev1.ConditionUnknown, reasonPaused, "Deployment is paused")
		}
	case had != nil && had.Reason == reasonPaused:
		set(corev1.ConditionUnknown, reasonResumed, "Deployment is resumed")
	case plan.create != nil:
		set(corev1.ConditionTrue, reasonCreated, fmt.Sprintf("Created new replica set %q", plan.create.Name))
	case had != nil && had.Reason == reasonComplete && s.Replicas == s.UpdatedReplicas:
		// A rollout that is over stays over, whatever becomes of its pods.
	case complete(d, s):
		set(corev1.ConditionTrue, reasonComplete, subject+" has successfully progressed.")
	case progressing(d, s):
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentProgressing })
		set(corev1.ConditionTrue, reasonUpdated, subject+" is progressing.")
		if had != nil && had.Status == corev1.ConditionTrue {
			s.Conditions[len(s.Conditions)-1].LastTransitionTime = had.LastTransitionTime
		}
	case timedOut(d, had, now):
		set(corev1.ConditionFalse, reasonTimedOut, subject+" has timed out progressing.")
	case had == nil:
		set(corev1.ConditionTrue, reasonUpdated, subject+" is progressing.")
	}
}

func complete(d *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	want := value(d.Spec.Replicas, 1)
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

// progressing tells whether anything has moved since the status before.
func progressing(d *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	before := &d.Status
	return s.UpdatedReplicas > before.UpdatedReplicas ||
		s.Replicas-s.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		s.ReadyReplicas > before.ReadyReplicas || s.AvailableReplicas > before.AvailableReplicas
}

func timedOut(d *appsv1.Deployment, had *appsv1.DeploymentCondition, now time.Time) bool {
	switch {
	case had == nil || had.Reason == reasonComplete:
		return false
	case had.Reason == reasonTimedOut:
		return true
	}
	return !now.Before(deadline(d, had))
}

func deadline(d *appsv1.Deployment, had *appsv1.DeploymentCondition) time.Time {
	return had.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
}

// progressDeadline tells in how long s has to be looked at again, to notice
// that nothing has moved; zero for never.
func progressDeadline(d *appsv1.Deployment, s appsv1.DeploymentStatus, now time.Time) time.Duration {
	had := deploymentCondition(s.Conditions, appsv1.DeploymentProgressing)
	if d.Spec.ProgressDeadlineSeconds == nil || had == nil || d.Spec.Paused || had.Reason == reasonComplete || had.Reason == reasonTimedOut {
		return 0
	}
	return max(deadline(d, had).Sub(now), time.Second)
}

func deploymentCondition(conditions []appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for _, c := range conditions {
		if c.Type == kind {
			return &c
		}
	}
	return nil
}

// setDeploymentCondition changes nothing when status and reason are as before.
func setDeploymentCondition(s *appsv1.DeploymentStatus, now time.Time, kind appsv1.DeploymentConditionType,
	status corev1.ConditionStatus, reason, message string) {
	c := appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message,
		LastUpdateTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
	if had := deploymentCondition(s.Conditions, kind); had != nil {
		if had.Status == status && had.Reason == reason {
			return
		}
		if had.Status == status {
			c.LastTransitionTime = had.LastTransitionTime
		}
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
	s.Conditions = append(s.Conditions, c)
}
