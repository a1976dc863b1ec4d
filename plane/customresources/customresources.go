// Package customresources adds CustomResourceDefinitions to a control plane, and installs definitions.
//
//	var config plane.Config
//	customresources.Enable(&config)
//	p, err := plane.New(config)
//	...
//	definitions, err := customresources.Load("config/crd")
//	err = customresources.Install(ctx, p.Client(), definitions...)
//
// A program that does not import the package links nothing of it. The model is that of package
// apiserver/crd: what a definition describes is served once the definition is established, and Install waits
// for that. After a restart, what was established is served before the controllers start. The garbage collector
// and resource quota follow the metadata of custom objects. Conversion webhooks behind services are found as admission
// webhooks are, by the services' endpoints.
//
// How it fails: Load names the file and the document that it cannot read. Install names the definition that
// the server refuses, or that was not established before its context ended, and why.
package customresources

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/crd"
	"github.com/planekit/planekit/apiserver/crd/rules"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds/apiextensions"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/stack"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Definitions is the kind of definitions, for clients.
var Definitions = kind.Define(kind.Kind[*apiextensions.CustomResourceDefinition]{
	Group: apiextensions.GroupName, Version: "v1", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions",
	NewList: func() runtime.Object { return &apiextensions.CustomResourceDefinitionList{} },
})

// Enable makes the control plane of c serve definitions, also those with rules in CEL.
func Enable(c *plane.Config) {
	compiler, broken := rules.New()
	c.Resources = append(c.Resources, crd.Resource(compiler))
	c.Extensions = append(c.Extensions, func(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
		if broken != nil {
			return broken
		}
		d, err := crd.New(crd.Config{
			Server: p.Server, User: p.User(), Rules: compiler, Log: c.Log.WithName("customresources"),
			Resolver: aggregate.ByEndpoints(p.Caches.Services, p.Caches.SlicesByService),
			Changed:  func(served []crd.Served) { p.Caches.Custom.SetKinds(kindsOf(served)) },
		})
		if err != nil {
			return err
		}
		s.Start("custom objects", p.Caches.Custom.Run)
		s.Start("custom resources", d.Run)
		return s.Await(ctx, d.Ready())
	})
}

func kindsOf(served []crd.Served) []caches.CustomKind {
	all := make([]caches.CustomKind, len(served))
	for i, one := range served {
		all[i] = caches.CustomKind{GroupVersionKind: one.GroupVersionKind, Plural: one.Plural, Namespaced: one.Namespaced}
	}
	return all
}

// Load reads definitions from files, and from the .yaml, .yml and .json files of directories and of those below
// them. Other objects in the files are left out.
func Load(paths ...string) ([]*apiextensions.CustomResourceDefinition, error) {
	var all []*apiextensions.CustomResourceDefinition
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || file != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
				return err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			more, err := Parse(data)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, more...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("customresources: %w", err)
		}
	}
	return all, nil
}

// Parse reads the definitions in YAML or JSON documents.
func Parse(data []byte) ([]*apiextensions.CustomResourceDefinition, error) {
	var all []*apiextensions.CustomResourceDefinition
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		var is metav1.TypeMeta
		if err := yaml.Unmarshal(text, &is); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if is.Kind != Definitions.Kind {
			continue
		}
		if is.APIVersion != apiextensions.GroupName+"/v1" {
			return nil, fmt.Errorf("document %d: a %s of version %s is not supported", n, is.Kind, is.APIVersion)
		}
		d := &apiextensions.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, d); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		all = append(all, d)
	}
}

// The waits between two looks at a definition that is not established yet.
const firstLook, lastLook = time.Millisecond, 100 * time.Millisecond

// Install creates definitions, or updates those that exist, and waits until all are established or ctx is done.
func Install(ctx context.Context, api *client.Client, definitions ...*apiextensions.CustomResourceDefinition) error {
	resource := client.For(api, Definitions)
	for _, d := range definitions {
		if err := put(ctx, resource, d); err != nil {
			return fmt.Errorf("customresources: definition %s: %w", d.Name, err)
		}
	}
	for _, d := range definitions {
		if err := await(ctx, resource, d.Name); err != nil {
			return fmt.Errorf("customresources: definition %s: %w", d.Name, err)
		}
	}
	return nil
}

func put(ctx context.Context, resource client.Resource[*apiextensions.CustomResourceDefinition], d *apiextensions.CustomResourceDefinition) error {
	for {
		_, err := resource.Create(ctx, d.DeepCopy())
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		have, err := resource.Get(ctx, "", d.Name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		next := d.DeepCopy()
		next.ResourceVersion = have.ResourceVersion
		if _, err = resource.Update(ctx, next); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
}

func await(ctx context.Context, resource client.Resource[*apiextensions.CustomResourceDefinition], name string) error {
	why := "it has no conditions"
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		d, err := resource.Get(ctx, "", name)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("it is not established: %s", why)
			}
			return err
		}
		for _, c := range d.Status.Conditions {
			if c.Type == apiextensions.Established && c.Status == metav1.ConditionTrue {
				return nil
			}
			if c.Status != metav1.ConditionTrue {
				why = c.Type + ": " + c.Message
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("it is not established: %s", why)
		}
	}
}
