// Package column makes the columns of server-side tables.
//
//	columns := []apiserver.Column{
//		column.Text("Status", "The status of the namespace", phase),
//		column.Age[*corev1.Namespace](),
//	}
//
// A column depends on the object alone unless [TimeDependent] made it.
package column

import (
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// What kubectl shows in place of an empty cell.
const (
	None    = "<none>"
	Unknown = "<unknown>"
)

// Object is the constraint that every object with metadata satisfies.
type Object interface {
	runtime.Object
	metav1.Object
}

// Text returns a column of strings that is always shown and depends on the object alone.
func Text[T runtime.Object](name, description string, value func(T) string) apiserver.Column {
	return apiserver.Column{
		Name:        name,
		Type:        "string",
		Description: description,
		Value:       func(obj runtime.Object) any { return value(obj.(T)) },
		Steady:      true,
	}
}

// Number returns a column of integers that is always shown.
func Number[T runtime.Object](name, description string, value func(T) int64) apiserver.Column {
	return apiserver.Column{
		Name:        name,
		Type:        "integer",
		Description: description,
		Value:       func(obj runtime.Object) any { return value(obj.(T)) },
		Steady:      true,
	}
}

// TimeDependent marks a column whose cells change with time alone.
func TimeDependent(c apiserver.Column) apiserver.Column {
	c.Steady = false
	return c
}

// Wide marks columns that are shown with -o wide only, and returns them.
func Wide(columns ...apiserver.Column) []apiserver.Column {
	for i := range columns {
		columns[i].Priority = 1
	}
	return columns
}

// Age returns the column with the age of the object.
func Age[T Object]() apiserver.Column {
	return TimeDependent(Text("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], func(obj T) string {
		return Since(obj.GetCreationTimestamp().Time)
	}))
}

// NameMarkedDefault returns a column of names in place of the server's own. It marks an object that
// one of the annotations makes the default.
func NameMarkedDefault[T Object](annotations ...string) apiserver.Column {
	c := Text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"], func(obj T) string {
		for _, a := range annotations {
			if obj.GetAnnotations()[a] == "true" {
				return obj.GetName() + " (default)"
			}
		}
		return obj.GetName()
	})
	c.Format = "name"
	return c
}

// Boolean returns a column of booleans, which Kubernetes declares as text.
func Boolean[T runtime.Object](name, description string, value func(T) bool) apiserver.Column {
	c := Text(name, description, func(T) string { return "" })
	c.Value = func(obj runtime.Object) any { return value(obj.(T)) }
	return c
}

// Since returns how long ago t was in the form of kubectl: "5d", "3h12m".
func Since(t time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(time.Since(t))
}

// OrNone returns s, or "<none>" if it is empty.
func OrNone(s string) string {
	if s == "" {
		return None
	}
	return s
}

// PodTemplate returns the wide columns of kinds with a pod template.
func PodTemplate[T runtime.Object](selectorDoc string, template func(T) *corev1.PodTemplateSpec, selector func(T) string) []apiserver.Column {
	list := func(pick func(*corev1.Container) string) func(T) string {
		return func(obj T) string {
			var parts []string
			for i := range template(obj).Spec.Containers {
				parts = append(parts, pick(&template(obj).Spec.Containers[i]))
			}
			return strings.Join(parts, ",")
		}
	}
	return Wide(
		Text("Containers", "Names of each container in the template.", list(func(c *corev1.Container) string { return c.Name })),
		Text("Images", "Images referenced by each container in the template.", list(func(c *corev1.Container) string { return c.Image })),
		Text("Selector", selectorDoc, selector),
	)
}

// Count returns a column of numbers, which Kubernetes declares as text.
func Count[T runtime.Object, N int | int32 | int64](name, description string, value func(T) N) apiserver.Column {
	c := Number(name, description, func(obj T) int64 { return int64(value(obj)) })
	c.Type = "string"
	return c
}

// MaxEndpoints is the number of endpoints that kubectl shows.
const MaxEndpoints = 3

// CreatedAt returns the column of kinds for which Kubernetes defines no columns.
func CreatedAt[T Object]() apiserver.Column {
	c := Text("Created At", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], func(obj T) string {
		return obj.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")
	})
	c.Type = "date"
	return c
}
