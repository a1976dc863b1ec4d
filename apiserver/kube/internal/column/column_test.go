package column_test

import (
	"fmt"
	"time"

	"github.com/planekit/planekit/apiserver/kube/internal/column"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	ns := &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	ns.CreationTimestamp = metav1.NewTime(time.Now().Add(-3 * time.Hour))
	status := column.Text("Status", "The status of the namespace", func(ns *corev1.Namespace) string { return string(ns.Status.Phase) })
	age := column.Age[*corev1.Namespace]()
	fmt.Println(status.Name, status.Value(ns), status.Steady)
	fmt.Println(age.Name, age.Value(ns), age.Steady)
	// Output:
	// Status Active true
	// Age 3h false
}
