package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
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
	reasonFound       = "FoundNewReplicaSet"
	reasonNotCreated  = "ReplicaSetCreateError"
	reasonUpdated     = "ReplicaSetUpdated"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
)

// deploymentStatus counts the ReplicaSets as they were when the plan was made.
func deploymentStatus(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, plan deploymentPlan, now time.Time) appsv1.DeploymentStatus {
	s := appsv1.DeploymentStatus{
		ObservedGeneration:  d.Generation,
		CollisionCount:      d.Status.CollisionCount,
		TerminatingReplicas: terminatingSum(sets),
		Conditions:          slices.Clone(d.Status.Conditions),
	}
	for _, rs := range sets {
		s.Replicas += rs.Status.Replicas
		s.ReadyReplicas += rs.Status.ReadyReplicas
		s.AvailableReplicas += rs.Status.AvailableReplicas
	}
	if plan.current != nil {
		s.UpdatedReplicas = plan.current.Status.Replicas
	}
	s.UnavailableReplicas = max(0, plan.total-s.AvailableReplicas)

	_, unavailable := bounds(d)
	if s.AvailableReplicas >= optional.Value(d.Spec.Replicas, 1)-unavailable {
		setDeploymentCondition(&s, now, appsv1.DeploymentAvailable, corev1.ConditionTrue, reasonAvailable,
			"Deployment has minimum availability.")
	} else {
		setDeploymentCondition(&s, now, appsv1.DeploymentAvailable, corev1.ConditionFalse, reasonUnavailable,
			"Deployment does not have minimum availability.")
	}
	if d.DeletionTimestamp != nil {
		return s
	}
	if hasDeadline(d) {
		milestones(d, &s, plan, now)
	}
	if !plan.rolling {
		return s
	}
	if hasDeadline(d) {
		progress(d, &s, plan, now)
	} else {
		dropDeploymentCondition(&s, appsv1.DeploymentProgressing)
	}
	setFailure(&s, sets, plan.current)
	return s
}

// terminatingSum counts the terminating pods if the number is known for all ReplicaSets. A
// ReplicaSet without an observed status has none.
func terminatingSum(sets []*appsv1.ReplicaSet) *int32 {
	var n int32
	for _, rs := range sets {
		switch {
		case rs.Status.TerminatingReplicas != nil:
			n += *rs.Status.TerminatingReplicas
		case rs.Status.ObservedGeneration != 0:
			return nil
		}
	}
	return &n
}

// setFailure copies the failure of a ReplicaSet to create or delete pods, the current one's first.
func setFailure(s *appsv1.DeploymentStatus, sets []*appsv1.ReplicaSet, current *appsv1.ReplicaSet) {
	if current != nil {
		sets = append([]*appsv1.ReplicaSet{current}, sets...)
	}
	for _, rs := range sets {
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				setDeploymentCondition(s, c.LastTransitionTime.Time, appsv1.DeploymentReplicaFailure, c.Status, c.Reason, c.Message)
				return
			}
		}
	}
	dropDeploymentCondition(s, appsv1.DeploymentReplicaFailure)
}

// hasDeadline reports whether progress is judged at all.
func hasDeadline(d *appsv1.Deployment) bool {
	return optional.Value(d.Spec.ProgressDeadlineSeconds, math.MaxInt32) != math.MaxInt32
}

// milestones sets the Progressing condition for single events: the Deployment is paused or resumed,
// or it gets a new ReplicaSet.
func milestones(d *appsv1.Deployment, s *appsv1.DeploymentStatus, plan deploymentPlan, now time.Time) {
	set := func(status corev1.ConditionStatus, reason, message string) {
		setDeploymentCondition(s, now, appsv1.DeploymentProgressing, status, reason, message)
	}
	had := optional.Value(deploymentCondition(s.Conditions, appsv1.DeploymentProgressing), appsv1.DeploymentCondition{})
	switch {
	case had.Reason == reasonTimedOut: // which a pause does not undo
	case d.Spec.Paused:
		set(corev1.ConditionUnknown, reasonPaused, "Deployment is paused")
	case had.Reason == reasonPaused:
		set(corev1.ConditionUnknown, reasonResumed, "Deployment is resumed")
	}
	switch {
	case plan.create != nil:
		set(corev1.ConditionTrue, reasonCreated, fmt.Sprintf("Created new replica set %q", plan.create.Name))
	case plan.current != nil && deploymentCondition(s.Conditions, appsv1.DeploymentProgressing) == nil:
		set(corev1.ConditionTrue, reasonFound, fmt.Sprintf("Found new replica set %q", plan.current.Name))
	}
}

// progress sets the Progressing condition during a rollout.
func progress(d *appsv1.Deployment, s *appsv1.DeploymentStatus, plan deploymentPlan, now time.Time) {
	had := deploymentCondition(s.Conditions, appsv1.DeploymentProgressing)
	if had != nil && had.Reason == reasonComplete && s.Replicas == s.UpdatedReplicas {
		return // a completed rollout stays complete, even if its pods fail later
	}
	subject := fmt.Sprintf("Deployment %q", d.Name)
	if plan.create != nil {
		subject = fmt.Sprintf("ReplicaSet %q", plan.create.Name)
	} else if plan.current != nil {
		subject = fmt.Sprintf("ReplicaSet %q", plan.current.Name)
	}
	set := func(status corev1.ConditionStatus, reason, message string) {
		setDeploymentCondition(s, now, appsv1.DeploymentProgressing, status, reason, subject+message)
	}
	switch {
	case complete(d, s):
		set(corev1.ConditionTrue, reasonComplete, " has successfully progressed.")
	case progressing(d, s):
		// Also if the reason is unchanged: the deadline counts from the time of the update.
		dropDeploymentCondition(s, appsv1.DeploymentProgressing)
		set(corev1.ConditionTrue, reasonUpdated, " is progressing.")
		if had != nil && had.Status == corev1.ConditionTrue {
			s.Conditions[len(s.Conditions)-1].LastTransitionTime = had.LastTransitionTime
		}
	case timedOut(d, had, now):
		set(corev1.ConditionFalse, reasonTimedOut, " has timed out progressing.")
	}
}

func complete(d *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	want := optional.Value(d.Spec.Replicas, 1)
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

// progressing reports whether the rollout has advanced since the previous status.
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
	return now.After(deadline(d, had))
}

func deadline(d *appsv1.Deployment, had *appsv1.DeploymentCondition) time.Time {
	return had.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
}

// progressDeadline returns when s must be checked again for a lack of progress; zero means never.
func progressDeadline(d *appsv1.Deployment, s appsv1.DeploymentStatus, now time.Time) time.Duration {
	had := deploymentCondition(s.Conditions, appsv1.DeploymentProgressing)
	if !hasDeadline(d) || had == nil || d.Spec.Paused || had.Reason == reasonComplete || had.Reason == reasonTimedOut {
		return 0
	}
	// One second more, because the API has no fractions of seconds.
	return max(deadline(d, had).Sub(now), 0) + time.Second
}

func deploymentCondition(conditions []appsv1.DeploymentCondition, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for _, c := range conditions {
		if c.Type == kind {
			return &c
		}
	}
	return nil
}

// setDeploymentCondition does nothing if status and reason are unchanged.
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
	dropDeploymentCondition(s, kind)
	s.Conditions = append(s.Conditions, c)
}

func dropDeploymentCondition(s *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}
