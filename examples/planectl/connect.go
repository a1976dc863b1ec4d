package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/discovery"
	"github.com/planekit/planekit/client/kubeconfig"
)

// nearby is the credential that a cluster started in this folder leaves here.
const nearby = ".planekit/admin.kubeconfig"

// load finds the kubeconfig: the flag, KUBECONFIG, a cluster's own nearby, or
// that of the home directory.
func (c *cli) load() (*kubeconfig.Config, error) {
	if c.kubeconfig != "" {
		return kubeconfig.Load(c.kubeconfig)
	}
	if list := c.Getenv("KUBECONFIG"); list != "" {
		return kubeconfig.LoadAll(filepath.SplitList(list)...)
	}
	if _, err := os.Stat(nearby); err == nil {
		return kubeconfig.Load(nearby)
	}
	return kubeconfig.Load(filepath.Join(c.Home, ".kube", "config"))
}

// connect makes a client and settles the namespace.
func (c *cli) connect() (*client.Client, error) {
	k, err := c.load()
	if err != nil {
		return nil, err
	}
	config, namespace, err := k.Client(c.context)
	if err != nil {
		return nil, err
	}
	if c.namespace == "" {
		c.namespace = namespace
	}
	if problems := content.IsPathSegmentName(c.namespace); len(problems) > 0 {
		return nil, fmt.Errorf("invalid namespace %q: %v", c.namespace, problems)
	}
	config.UserAgent = "planectl"
	config.Warn = c.warn
	return client.New(config)
}

// warn prints what a server warns of, once.
func (c *cli) warn(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1 // it could steer the terminal
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if !c.warned[text] {
		c.warned[text] = true
		fmt.Fprintln(c.Err, "Warning:", text)
	}
}

// object is one object of a resource, or all of them, that a command names.
type object struct {
	discovery.Mapping
	name string
}

// path returns the path of the object in the namespace of the command.
func (o *object) path(namespace string) string {
	at := o.Path(namespace)
	if o.name != "" {
		at += "/" + url.PathEscape(o.name)
	}
	return at
}

// resolve returns the objects that the arguments of a command name.
func resolve(ctx context.Context, c *client.Client, args []string) ([]object, error) {
	refs, err := discovery.ParseArgs(args)
	if err != nil {
		return nil, err
	}
	catalog, err := discovery.Fetch(ctx, c)
	if err != nil {
		return nil, err
	}
	var objects []object
	for _, r := range refs {
		m, err := catalog.Resolve(r.Type)
		if err != nil {
			return nil, err
		}
		if problems := content.IsPathSegmentName(r.Name); r.Name != "" && len(problems) > 0 {
			return nil, fmt.Errorf("invalid resource name %q: %v", r.Name, problems)
		}
		objects = append(objects, object{m, r.Name})
	}
	return objects, nil
}
