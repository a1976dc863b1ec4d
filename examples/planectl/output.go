package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/planekit/planekit/client/printers"
)

func badFormat(output, allowed string) error {
	return fmt.Errorf("unable to match a printer suitable for the output format %q, allowed formats are: %s", output, allowed)
}

// groupKind names a kind as kubectl prints it.
func groupKind(k schema.GroupVersionKind) string {
	name := strings.ToLower(k.Kind)
	if k.Group != "" {
		name += "." + k.Group
	}
	return name
}

// printObject writes a whole object as json, name or yaml.
func (c *cli) printObject(output string, o printers.Object) error {
	switch output {
	case "json":
		return printers.JSON(c.Out, o)
	case "yaml":
		return printers.YAML(c.Out, o)
	}
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(printers.Object)
	name, _ := meta["name"].(string)
	return printers.Name(c.Out, groupKind(schema.FromAPIVersionAndKind(version, kind)), name, "")
}
