package core

import (
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// eventTTL is kube-apiserver's default for --event-ttl.
const eventTTL = time.Hour

// Events returns the resource of the kind Event.
func Events() apiserver.Resource {
	r := apiserver.For(kinds.Events, apiserver.Resource{
		TTL: eventTTL, CreateOnUpdate: true,
		Strategy: define.Strategy[*corev1.Event]{
			Validate:       validateEvent,
			ValidateUpdate: func(e, _ *corev1.Event) field.ErrorList { return validateEvent(e) },
		}.Erase(),
		Columns: eventColumns(),
		Fields: define.Fields[*corev1.Event]{
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
		}.Erase(),
	})
	r.Strategy.GarbageCollection = apiserver.NoGarbageCollection
	r.Strategy.ValidateName = apiserver.PathSegmentName
	return r
}

// eventColumns returns the columns of events, the name last. The server leaves out its own column
// of names if a resource has one.
func eventColumns() []apiserver.Column {
	doc := corev1.Event{}.SwaggerDoc()
	columns := []apiserver.Column{
		column.TimeDependent(column.Text("Last Seen", doc["lastTimestamp"], eventLastSeen)),
		column.Text("Type", doc["type"], func(e *corev1.Event) string { return e.Type }),
		column.Text("Reason", doc["reason"], func(e *corev1.Event) string { return e.Reason }),
		column.Text("Object", doc["involvedObject"], eventObject),
		column.Text("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"], func(e *corev1.Event) string { return e.InvolvedObject.FieldPath }),
		column.Text("Source", doc["source"], eventSource),
		column.Text("Message", doc["message"], func(e *corev1.Event) string { return strings.TrimSpace(e.Message) }),
		column.TimeDependent(column.Text("First Seen", doc["firstTimestamp"], eventFirstSeen)),
		column.Count("Count", doc["count"], eventCount),
		column.Text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"], func(e *corev1.Event) string { return e.Name }),
	}
	column.Wide(columns[4:6]...)
	column.Wide(columns[7:]...)
	columns[9].Format = "name"
	return columns
}

func eventFirstSeen(e *corev1.Event) string {
	if e.FirstTimestamp.IsZero() {
		return column.Since(e.EventTime.Time)
	}
	return column.Since(e.FirstTimestamp.Time)
}

func eventLastSeen(e *corev1.Event) string {
	switch {
	case e.Series != nil:
		return column.Since(e.Series.LastObservedTime.Time)
	case e.LastTimestamp.IsZero():
		return eventFirstSeen(e)
	}
	return column.Since(e.LastTimestamp.Time)
}

// eventCount returns the count of an event, 1 for an event without one.
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

func validateEvent(e *corev1.Event) field.ErrorList {
	var ps check.Problems
	check.Event(&ps, e, "reportingComponent")
	return ps.List
}
