// Package kubeletconfig reads the configuration file of a kubelet: a KubeletConfiguration of
// kubelet.config.k8s.io/v1beta1, in YAML or JSON.
//
//	file, err := kubeletconfig.Decode(data)
//	if err != nil { ... }
//	for _, warning := range file.Warnings() { ... }
//	config := kubelet.Config{ ... }
//	err = file.Apply(&config)
//
// # Model
//
// A table has a row for each field of Kubernetes v1.36. Apply changes only what the file says; other
// fields of the kubelet.Config keep their values, and zero values there mean Kubernetes' defaults, except
// that pulls have no limit without registryPullQPS or registryBurst, that pods are synced every 20 seconds
// without syncFrequency, and that the kubelet runs with swap and with version 1 of cgroups unless failSwapOn
// and failCgroupV1 are true. As in Kubernetes, an empty duration or
// a maxPods of 0 means the default.
//
// # Failure
//
// Decode refuses unknown and duplicate fields, with their paths, wrong types, and values that Kubernetes
// refuses. Fields on which nothing acts are in the table too. Without them a node may do less than the
// file says, which Warnings reports by name; it does not report values that are Kubernetes' defaults.
// Decode refuses such a field if it would restrict what pods may do.
//
// # Not included
//
// Drop-in directories, feature gates and the flags of the kubelet. The settings of its server and of
// static pods are for the program that runs it, which gets them of [File.Program] and names to
// [File.Warnings] the parts on which it acts.
package kubeletconfig

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"

	"github.com/planekit/planekit/kubelet"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	// APIVersion and Kind are those of the file.
	APIVersion = "kubelet.config.k8s.io/v1beta1"
	Kind       = "KubeletConfiguration"
)

// maxSize bounds the file, in bytes.
const maxSize = 1 << 20

// File is a decoded configuration file.
type File struct {
	values   []value
	warnings []warning
	program  Program
}

// warning is a sentence about a field of a part. acted says whether it is true when the program acts on
// the part, or when it does not.
type warning struct {
	part  Part
	acted bool
	text  string
}

// value is a field of the file.
type value struct {
	row   *row
	value any
}

// Decode reads a configuration file.
func Decode(data []byte) (*File, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("the file has %d bytes, more than %d", len(data), maxSize)
	}
	text, err := onlyDocument(data)
	if err != nil {
		return nil, err
	}
	var named struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &named); err != nil {
		return nil, err
	}
	if named.APIVersion != APIVersion || named.Kind != Kind {
		return nil, fmt.Errorf("no %s of %s: apiVersion %q, kind %q", Kind, APIVersion, named.APIVersion, named.Kind)
	}
	table := rows()
	fields := reflect.New(schema(table))
	wrong, err := json.UnmarshalStrict(text, fields.Interface())
	if err = cmp.Or(err, errors.Join(wrong...)); err != nil {
		return nil, fmt.Errorf("strict decoding error: %w", err)
	}
	f := &File{program: defaultProgram()}
	f.program.StaticPodHeader = http.Header{}
	for i := range table {
		if field := fields.Elem().Field(i); !field.IsNil() {
			f.values = append(f.values, value{&table[i], field.Elem().Interface()})
		}
	}
	if err := f.checkIdle(); err != nil {
		return nil, err
	}
	f.warnings = append(f.warnings, f.program.cautions()...)
	// Apply validates the values.
	if err := f.Apply(&kubelet.Config{}); err != nil {
		return nil, err
	}
	return f, nil
}

// onlyDocument returns the only YAML document of data as JSON. It ignores empty documents.
func onlyDocument(data []byte) ([]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var only []byte
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		text, err := yaml.YAMLToJSONStrict(part)
		switch {
		case err != nil:
			return nil, err
		case string(text) == "null":
		case only != nil:
			return nil, errors.New("the file has more than one document")
		default:
			only = text
		}
	}
	if only == nil {
		return nil, errors.New("the file is empty")
	}
	return only, nil
}

// schema returns a struct type with a pointer for each field of the table, and the type of the file.
func schema(table []row) reflect.Type {
	var fields []reflect.StructField
	add := func(name string, t reflect.Type) {
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("Field%d", len(fields)), Type: reflect.PointerTo(t), Tag: reflect.StructTag(fmt.Sprintf("json:%q", name)),
		})
	}
	for _, r := range table {
		add(r.name, r.kind)
	}
	add("kind", reflect.TypeFor[string]())
	add("apiVersion", reflect.TypeFor[string]())
	return reflect.StructOf(fields)
}

// checkIdle reads the settings of the program, collects warnings about fields on which the kubelet does
// not act, and refuses those that restrict pods.
func (f *File) checkIdle() error {
	var errs []error
	for _, v := range f.values {
		if v.row.take != nil {
			if err := v.row.take(&f.program, v.value); err != nil {
				errs = append(errs, fmt.Errorf("invalid configuration: %s: %w", v.row.name, err))
			}
		}
		if v.row.idle == "" || v.row.harmless(v.value) {
			continue
		}
		text := fmt.Sprintf("%s has no effect: %s", v.row.name, v.row.idle)
		if v.row.refused {
			errs = append(errs, errors.New(text))
		} else {
			f.warnings = append(f.warnings, warning{part: v.row.part, text: text})
		}
	}
	return errors.Join(errs...)
}

// Warnings returns a sentence for each field of the file that has no effect and asks for one. acted are
// the parts on which the program acts.
func (f *File) Warnings(acted ...Part) []string {
	var list []string
	for _, w := range f.warnings {
		if slices.Contains(acted, w.part) == w.acted {
			list = append(list, w.text)
		}
	}
	return list
}

// Has reports whether the file contains a field, such as "cgroupRoot".
func (f *File) Has(field string) bool {
	for _, v := range f.values {
		if v.row.name == field {
			return true
		}
	}
	return false
}

// Apply changes a kubelet's configuration to what the file says.
func (f *File) Apply(k *kubelet.Config) error {
	s := &settings{kubelet: k}
	for _, v := range f.values {
		if v.row.apply != nil {
			v.row.apply(s, v.value)
		}
	}
	s.finish()
	return errors.Join(s.errs...)
}

// Describe returns the fields of a KubeletConfiguration that a kubelet's configuration has, such as
// for /configz.
func Describe(k *kubelet.Config) map[string]any {
	fields := map[string]any{"kind": Kind, "apiVersion": APIVersion}
	for _, r := range rows() {
		if r.show == nil {
			continue
		}
		if v := r.show(k); v != nil && !reflect.ValueOf(v).IsZero() {
			fields[r.name] = v
		}
	}
	return fields
}
