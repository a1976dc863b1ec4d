package podconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// variables holds a container's environment in order of definition.
type variables struct {
	names  []string
	values map[string]string
	files  map[string]*envFile // those that were read, by their paths on the host
	left   budget
}

// set sets a variable. It returns an error if the container has too many: the caller must not evaluate
// another one.
func (v *variables) set(name, value string) error {
	if !v.left.take(len(name) + len(value)) {
		return v.left.err()
	}
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
	}
	v.values[name] = value
	return nil
}

func (v *variables) lookup(name string) (string, bool) {
	value, ok := v.values[name]
	return value, ok
}

func (v *variables) list() []*runtimeapi.KeyValue {
	var list []*runtimeapi.KeyValue
	for _, name := range v.names {
		list = append(list, &runtimeapi.KeyValue{Key: name, Value: []byte(v.values[name])})
	}
	return list
}

// environment evaluates a container's env and envFrom, and adds the variables of services. A value may
// use variables defined before it, and those of services.
func (b *Builder) environment(ctx context.Context, pod *corev1.Pod, c *corev1.Container, volumes Volumes) (*variables, error) {
	v := &variables{values: map[string]string{}, files: map[string]*envFile{}, left: maxExpanded}
	services, err := b.serviceVariables(pod)
	if err != nil {
		return nil, err
	}
	lookup := func(name string) (string, bool) {
		if value, ok := v.lookup(name); ok {
			return value, true
		}
		value, ok := services[name]
		return value, ok
	}
	for _, from := range c.EnvFrom {
		values, err := b.envFrom(ctx, pod.Namespace, &from)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if err := v.set(from.Prefix+name, values[name]); err != nil {
				return nil, err
			}
		}
	}
	for i := range c.Env {
		e := &c.Env[i]
		value, present := "", true
		if e.ValueFrom == nil {
			left := v.left
			value = expand(e.Value, lookup, &left)
			err = left.err()
		} else {
			value, present, err = b.valueFrom(ctx, pod, c, e.ValueFrom, volumes, v)
		}
		if err == nil && present {
			err = v.set(e.Name, value)
		}
		if err != nil {
			return nil, err // Kubernetes does not name the variable
		}
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if _, known := v.lookup(name); known {
			continue
		}
		if err := v.set(name, services[name]); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (b *Builder) envFrom(ctx context.Context, namespace string, from *corev1.EnvFromSource) (map[string]string, error) {
	values := map[string]string{}
	if r := from.ConfigMapRef; r != nil {
		m, err := b.ConfigMap(ctx, namespace, r.Name, r.Optional)
		if err != nil {
			return nil, err
		}
		if m != nil {
			values = m.Data
		}
	}
	if r := from.SecretRef; r != nil {
		s, err := b.Secret(ctx, namespace, r.Name, r.Optional)
		if err != nil {
			return nil, err
		}
		if s != nil {
			for name, value := range s.Data {
				values[name] = string(value)
			}
		}
	}
	return values, nil
}

// valueFrom reads one value. present is false for a missing optional value.
func (b *Builder) valueFrom(ctx context.Context, pod *corev1.Pod, c *corev1.Container, from *corev1.EnvVarSource, volumes Volumes, v *variables) (value string, present bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = b.Field(pod, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = b.ResourceField(pod, c, from.ResourceFieldRef)
		return value, err == nil, err
	case from.FileKeyRef != nil:
		return b.fromFile(pod, from.FileKeyRef, volumes, v)
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		m, err := b.ConfigMap(ctx, pod.Namespace, r.Name, r.Optional)
		if m == nil || err != nil {
			return "", false, err
		}
		if value, present = m.Data[r.Key]; !present && !isTrue(r.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", r.Key, pod.Namespace, r.Name)
		}
		return value, present, nil
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		s, err := b.Secret(ctx, pod.Namespace, r.Name, r.Optional)
		if s == nil || err != nil {
			return "", false, err
		}
		data, present := s.Data[r.Key]
		if !present && !isTrue(r.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", r.Key, pod.Namespace, r.Name)
		}
		return string(data), present, nil
	}
	return "", false, errors.New("unsupported source of a value")
}

func isTrue(b *bool) bool { return b != nil && *b }

// ConfigMap reads a config map; nil for a missing optional one.
func (b *Builder) ConfigMap(ctx context.Context, namespace, name string, optional *bool) (*corev1.ConfigMap, error) {
	if b.ConfigMaps == nil {
		return nil, errors.New("this kubelet has no access to config maps")
	}
	return getOptional(ctx, b.ConfigMaps, "configmap", namespace, name, optional)
}

// Secret reads a secret; nil for a missing optional one.
func (b *Builder) Secret(ctx context.Context, namespace, name string, optional *bool) (*corev1.Secret, error) {
	if b.Secrets == nil {
		return nil, errors.New("this kubelet has no access to secrets")
	}
	return getOptional(ctx, b.Secrets, "secret", namespace, name, optional)
}

func getOptional[T any](ctx context.Context, get func(context.Context, string, string) (*T, error), kind, namespace, name string, optional *bool) (*T, error) {
	object, err := get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err) && isTrue(optional):
		return nil, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s %q not found", kind, name)
	case err != nil:
		return nil, fmt.Errorf("get %s %s/%s: %w", kind, namespace, name, err)
	}
	return object, nil
}
