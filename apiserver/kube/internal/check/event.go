package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What an event of the newer kind, which has an eventTime, may hold
// (https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/).
const (
	maxEventWord    = 128
	maxEventMessage = 1024
)

// Event checks an event of either group. They call the controller by
// different names.
func Event(ps *Problems, e *corev1.Event, controller string) {
	involved := field.NewPath("involvedObject", "namespace")
	about := e.InvolvedObject.Namespace
	matches := about == e.Namespace || about == "" && e.Namespace == metav1.NamespaceDefault
	if e.EventTime.IsZero() {
		ps.Valid(matches, involved, about, "does not match event.namespace")
	} else {
		ps.Valid(about != "" || e.Namespace == metav1.NamespaceDefault || e.Namespace == metav1.NamespaceSystem,
			involved, about, "does not match event.namespace")
		component := field.NewPath(controller)
		ps.Required(component, e.ReportingController)
		ps.Each(component, e.ReportingController, validation.IsQualifiedName(e.ReportingController))
		for _, word := range []struct{ path, value string }{
			{"reportingInstance", e.ReportingInstance},
			{"action", e.Action},
			{"reason", e.Reason},
		} {
			ps.Required(field.NewPath(word.path), word.value)
			checkEventLength(ps, word.path, word.value, maxEventWord)
		}
		checkEventLength(ps, "message", e.Message, maxEventMessage)
	}
	ps.Subdomain(field.NewPath("namespace"), e.Namespace)
}

func checkEventLength(ps *Problems, path, value string, limit int) {
	ps.Valid(len(value) <= limit, field.NewPath(path), "", fmt.Sprintf("can have at most %v characters", limit))
}
