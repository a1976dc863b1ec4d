package main

import (
	"io"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server"
)

// registerGeneric registers the plugins that every API server has.
func registerGeneric(registered *admission.Plugins) { server.RegisterAllAdmissionPlugins(registered) }

// noConfiguration configures no plugin.
type noConfiguration struct{}

func (noConfiguration) ConfigFor(string) (io.Reader, error) { return nil, nil }

func labelSet(l map[string]string) labels.Set { return l }
