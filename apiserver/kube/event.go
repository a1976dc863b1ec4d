package kube

import (
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// eventTTL is kube-apiserver's default for --event-ttl.
const eventTTL = time.Hour

func events() apiserver.Resource {
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "Event",
		Plural:     "events",
		ShortNames: []string{"ev"},
		Namespaced: true,
		TTL:        eventTTL,
		New:        func() runtime.Object { return &corev1.Event{} },
		NewList:    func() runtime.Object { return &corev1.EventList{} },
		Strategy: strategy[*corev1.Event]{
			validate:       validateEvent,
			validateUpdate: func(e, _ *corev1.Event) field.ErrorList { return validateEvent(e) },
		}.erase(),
		Columns: eventColumns(),
		Fields: selectable[*corev1.Event]{
			"involvedObject.kind":            func(e *corev1.Event) string { return e.InvolvedObject.Kind },
			"involvedObject.namespace":       func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
			"involvedObject.name":            func(e *corev1.Event) string { return e.InvolvedObject.Name },
			"involvedObject.uid":             func(e *corev1.Event) string { return string(e.InvolvedObject.UID) },
			"involvedObject.apiVersion":      func(e *corev1.Event) string { return e.InvolvedObject.APIVersion },
			"involvedObject.resourceVersion": func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion },
			"involvedObject.fieldPath":       func(e *corev1.Event) string { return e.InvolvedObject.FieldPath },
			"reason":                         func(e *corev1.Event) string { return e.Reason },
			"reportingComponent":             func(e *corev1.Event) string { return e.ReportingController },
			"source":                         eventComponent,
			"type":                           func(e *corev1.Event) string { return e.Type },
		}.erase(),
	}
}

// eventColumns end with the name: of an event that is what matters least. The
// server leaves out its own column of names where a resource has one.
func eventColumns() []apiserver.Column {
	doc := corev1.Event{}.SwaggerDoc()
	columns := []apiserver.Column{
		passing(text("Last Seen", doc["lastTimestamp"], eventLastSeen)),
		text("Type", doc["type"], func(e *corev1.Event) string { return e.Type }),
		text("Reason", doc["reason"], func(e *corev1.Event) string { return e.Reason }),
		text("Object", doc["involvedObject"], eventObject),
		text("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"], func(e *corev1.Event) string { return e.InvolvedObject.FieldPath }),
		text("Source", doc["source"], eventSource),
		text("Message", doc["message"], func(e *corev1.Event) string { return strings.TrimSpace(e.Message) }),
		passing(text("First Seen", doc["firstTimestamp"], eventFirstSeen)),
		countColumn("Count", doc["count"], eventCount),
		text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"], func(e *corev1.Event) string { return e.Name }),
	}
	wide(columns[4:6]...)
	wide(columns[7:]...)
	columns[9].Format = "name"
	return columns
}

func eventFirstSeen(e *corev1.Event) string {
	if e.FirstTimestamp.IsZero() {
		return since(e.EventTime.Time)
	}
	return since(e.FirstTimestamp.Time)
}

func eventLastSeen(e *corev1.Event) string {
	switch {
	case e.Series != nil:
		return since(e.Series.LastObservedTime.Time)
	case e.LastTimestamp.IsZero():
		return eventFirstSeen(e)
	}
	return since(e.LastTimestamp.Time)
}

// eventCount is 1 for an event that does not count.
func eventCount(e *corev1.Event) int64 {
	switch {
	case e.Series != nil:
		return int64(e.Series.Count)
	case e.Count == 0:
		return 1
	}
	return int64(e.Count)
}

func eventObject(e *corev1.Event) string {
	kind := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name == "" {
		return kind
	}
	return kind + "/" + e.InvolvedObject.Name
}

func eventComponent(e *corev1.Event) string {
	if e.Source.Component != "" {
		return e.Source.Component
	}
	return e.ReportingController
}

func eventSource(e *corev1.Event) string {
	host := e.Source.Host
	if host == "" {
		host = e.ReportingInstance
	}
	if host == "" {
		return eventComponent(e)
	}
	return eventComponent(e) + ", " + host
}

// What an event of the newer kind, which has an eventTime, may hold
// (https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/).
const (
	maxEventWord    = 128
	maxEventMessage = 1024
)

func validateEvent(e *corev1.Event) field.ErrorList {
	var ps problems
	checkEvent(&ps, e, "reportingComponent")
	return ps.list
}

// checkEvent checks an event of either group. They call the controller by
// different names.
func checkEvent(ps *problems, e *corev1.Event, controller string) {
	involved := field.NewPath("involvedObject", "namespace")
	about := e.InvolvedObject.Namespace
	matches := about == e.Namespace || about == "" && e.Namespace == metav1.NamespaceDefault
	if e.EventTime.IsZero() {
		ps.valid(matches, involved, about, "does not match event.namespace")
	} else {
		ps.valid(about != "" || e.Namespace == metav1.NamespaceDefault || e.Namespace == metav1.NamespaceSystem,
			involved, about, "does not match event.namespace")
		component := field.NewPath(controller)
		ps.required(component, e.ReportingController)
		ps.each(component, e.ReportingController, validation.IsQualifiedName(e.ReportingController))
		for _, word := range []struct{ path, value string }{
			{"reportingInstance", e.ReportingInstance},
			{"action", e.Action},
			{"reason", e.Reason},
		} {
			ps.required(field.NewPath(word.path), word.value)
			checkEventLength(ps, word.path, word.value, maxEventWord)
		}
		checkEventLength(ps, "message", e.Message, maxEventMessage)
	}
	ps.subdomain(field.NewPath("namespace"), e.Namespace)
}

func checkEventLength(ps *problems, path, value string, limit int) {
	ps.valid(len(value) <= limit, field.NewPath(path), "", fmt.Sprintf("can have at most %v characters", limit))
}
