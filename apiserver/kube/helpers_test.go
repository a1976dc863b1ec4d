package kube_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// setStatus gives obj the status of from, of the same type.
func setStatus(t *testing.T, obj, from runtime.Object) {
	t.Helper()
	status := func(o runtime.Object) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }
	status(obj).Set(status(from.DeepCopyObject()))
}
