// Package invalid makes the response to an object with invalid fields. It is Kubernetes' response, with
// a bound: an object of three megabytes may have a million errors, and each may repeat a value of a
// megabyte.
//
//	if errs := validate(pod); len(errs) > 0 {
//		return invalid.Object(kind, pod.Name, errs)
//	}
package invalid

import (
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The bounds of a response: the number of errors, their size altogether, and the size of one with its
// value, in bytes.
const (
	maxErrors = 250
	maxSize   = 128 << 10
	maxOne    = 32 << 10
	// maxWasted bounds the errors that are made only to find out that they are too large. After that, errors leave out
	// their values unseen.
	maxWasted = 4 << 20
)

// Most is the number of errors after which a validator may stop: no object shows so many.
const Most = 10_000

// Object returns the error of an object with invalid fields. It lists the first errors, and counts
// those for which there is no room. An error that would be too large leaves out its value and the end of its detail.
func Object(kind schema.GroupKind, name string, errs field.ErrorList) error {
	var listed field.ErrorList
	size, wasted := 0, 0
	tooLarge := map[identity]bool{}
	for _, e := range errs {
		value := identityOf(e.BadValue)
		if long, ok := e.BadValue.(string); ok && len(long) > maxOne || tooLarge[value] || wasted > maxWasted {
			e = withoutValue(e)
		}
		text := e.Error()
		if len(text) > maxOne {
			if value != (identity{}) {
				tooLarge[value] = true
			}
			wasted += len(text)
			e = withoutValue(e)
			if len(e.Detail) > maxOne {
				e.Detail = strings.ToValidUTF8(e.Detail[:maxOne], "") + "..."
			}
			text = e.Error()
		}
		if size += len(text); len(listed) > 0 && (size > maxSize || len(listed) == maxErrors) {
			break
		}
		listed = append(listed, e)
	}
	err := apierrors.NewInvalid(kind, name, listed)
	if more := len(errs) - len(listed); more > 0 {
		atLeast := ""
		if len(errs) >= Most {
			atLeast = "at least "
		}
		err.ErrStatus.Message += fmt.Sprintf(" and %s%d other errors", atLeast, more)
	}
	return err
}

func withoutValue(e *field.Error) *field.Error {
	short := *e
	short.BadValue = field.OmitValueType{}
	return &short
}

// identity is the memory of a list or map. It is the zero value for other values.
type identity struct {
	of  reflect.Type
	at  uintptr
	len int
}

// identityOf identifies a list or map, which many errors may share, such as all ownerReferences. Each
// error would take the time and memory of all of it to learn that it is too large.
func identityOf(value any) identity {
	v := reflect.ValueOf(value)
	if k := v.Kind(); k != reflect.Slice && k != reflect.Map {
		return identity{}
	}
	return identity{v.Type(), v.Pointer(), v.Len()}
}
