package main

import (
	"context"
	"slices"

	"github.com/planekit/planekit/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checks refuses colors that there is no paint of.
func checks() apiserver.Strategy {
	return apiserver.Strategy{
		Validate:       func(_ context.Context, o runtime.Object) field.ErrorList { return validate(o.(*Widget)) },
		ValidateUpdate: func(_ context.Context, o, _ runtime.Object) field.ErrorList { return validate(o.(*Widget)) },
	}
}

func validate(w *Widget) field.ErrorList {
	paint := []string{"blue", "green", "red"}
	if slices.Contains(paint, w.Color) {
		return nil
	}
	return field.ErrorList{field.NotSupported(field.NewPath("color"), w.Color, paint)}
}
