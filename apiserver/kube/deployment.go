package kube

import (
	"fmt"
	"maps"

	"github.com/planekit/planekit/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func deployments() apiserver.Resource {
	main := strategy[*appsv1.Deployment]{
		complete: completeDeployment,
		create: func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{}
			d.Generation = 1
		},
		update:         updateDeployment,
		validate:       validateDeployment,
		validateUpdate: validateDeploymentUpdate,
	}
	return apiserver.Resource{
		Group:      appsv1.GroupName,
		Version:    "v1",
		Kind:       "Deployment",
		Plural:     "deployments",
		ShortNames: []string{"deploy"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &appsv1.Deployment{} },
		NewList:    func() runtime.Object { return &appsv1.DeploymentList{} },
		Strategy:   main.erase(),
		Columns:    deploymentColumns(),
		Subresources: []apiserver.Subresource{
			status(strategy[*appsv1.Deployment]{
				update: func(d, old *appsv1.Deployment) {
					old.Spec.DeepCopyInto(&d.Spec)
					d.Labels = maps.Clone(old.Labels)
				},
				validateUpdate: validateDeploymentStatus,
			}, "spec", "metadata.labels"),
			scale(main, "deployments", func(d *appsv1.Deployment) scaled {
				return scaled{d, &d.Spec.Replicas, d.Status.Replicas, d.Spec.Selector}
			}),
		},
	}
}

func completeDeployment(d *appsv1.Deployment) {
	setIfNil(&d.Spec.Replicas, 1)
	s := &d.Spec.Strategy
	setIfEmpty(&s.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		setIfNil(&s.RollingUpdate, appsv1.RollingUpdateDeployment{})
		setIfNil(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		setIfNil(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	setIfNil(&d.Spec.RevisionHistoryLimit, 10)
	setIfNil(&d.Spec.ProgressDeadlineSeconds, 600)
	defaultPodSpec(&d.Spec.Template.Spec)
}

// updateDeployment counts changes of annotations too: they are copied to the
// replica sets.
func updateDeployment(d, old *appsv1.Deployment) {
	old.Status.DeepCopyInto(&d.Status)
	d.Generation = nextGeneration(old.Generation, differ(&d.Spec, &old.Spec) || differ(d.Annotations, old.Annotations))
}

func deploymentColumns() []apiserver.Column {
	doc := appsv1.DeploymentStatus{}.SwaggerDoc()
	columns := []apiserver.Column{
		text("Ready", "Number of the pod with ready state", func(d *appsv1.Deployment) string {
			return fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, deref(d.Spec.Replicas))
		}),
		countColumn("Up-to-date", doc["updatedReplicas"], func(d *appsv1.Deployment) int32 { return d.Status.UpdatedReplicas }),
		countColumn("Available", doc["availableReplicas"], func(d *appsv1.Deployment) int32 { return d.Status.AvailableReplicas }),
		age[*appsv1.Deployment](),
	}
	return append(columns, templateColumns(appsv1.DeploymentSpec{}.SwaggerDoc()["selector"],
		func(d *appsv1.Deployment) *corev1.PodTemplateSpec { return &d.Spec.Template },
		func(d *appsv1.Deployment) string { return selectorText(d.Spec.Selector) })...)
}

// selectorText writes a selector as kubectl's -l takes it.
func selectorText(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "<invalid>"
	}
	return selector.String()
}
