//go:build linux

// Package chain is the CNI plugin "planekit-cni": it runs a list of plugins through a
// [cni.Invoker]. Any runtime gets the invoker's features: recorded attachments, cleanup after a
// failed ADD, timeouts, and GC for plugins without it.
//
//	{
//		"type": "planekit-cni",
//		"dir": "/var/lib/planekit/cni",
//		"delegates": [{"type": "bridge", ...}, {"type": "portmap", ...}]
//	}
//
// The delegates get the runtime's CNI_PATH and CNI_ARGS, and those parts of its runtimeConfig that
// match their capabilities.
//
// [Network] returns the configuration of planekit's standard network.
package chain

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
)

// Plugin returns the plugin.
func Plugin() skel.Plugin {
	return skel.Plugin{
		Name: "planekit-cni",
		Add: func(ctx context.Context, r *skel.Request) (*cni.Result, error) {
			c, err := parse(r)
			if err != nil {
				return nil, err
			}
			result, err := c.invoker.Add(ctx, c.list, c.runtime)
			return result, refused(err)
		},
		Del: with(func(ctx context.Context, c *chain) error {
			return c.invoker.Del(ctx, c.list, c.runtime)
		}),
		Check: with(func(ctx context.Context, c *chain) error {
			return c.invoker.Check(ctx, c.list, c.runtime)
		}),
		GC: with(func(ctx context.Context, c *chain) error {
			if c.valid == nil {
				return cni.Errorf(cni.CodeInvalidConfig, "cni.dev/valid-attachments is missing")
			}
			return c.invoker.GC(ctx, c.list, c.valid)
		}),
		Status: with(func(ctx context.Context, c *chain) error {
			return c.invoker.Status(ctx, c.list)
		}),
	}
}

// Conf is the plugin's part of the configuration.
type Conf struct {
	Type string `json:"type"`
	// Delegates are the configurations of plugins, as in a list.
	Delegates []any `json:"delegates"`
	// Dir is the invoker's Config.Dir.
	Dir string `json:"dir,omitempty"`
	// TimeoutSeconds bounds each call of a delegate; zero means the invoker's default.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// Capabilities must include those of the delegates: a runtime passes on no others.
	Capabilities map[string]bool `json:"capabilities,omitempty"`
}

// chain is one prepared call.
type chain struct {
	invoker *cni.Invoker
	list    *cni.List
	runtime cni.RuntimeConfig
	valid   []cni.Attachment
}

func with(f func(context.Context, *chain) error) func(context.Context, *skel.Request) error {
	return func(ctx context.Context, r *skel.Request) error {
		c, err := parse(r)
		if err != nil {
			return err
		}
		return refused(f(ctx, c))
	}
}

// refused adds the specification's error code to the invoker's own errors.
func refused(err error) error {
	if errors.Is(err, cni.ErrNoPlugin) {
		return cni.Errorf(cni.CodeInvalidConfig, "%v", err)
	}
	return err
}

func parse(r *skel.Request) (*chain, error) {
	var c struct {
		Conf
		RuntimeConfig map[string]any    `json:"runtimeConfig"`
		Delegates     []json.RawMessage `json:"delegates"`
	}
	if err := r.Decode(&c); err != nil {
		return nil, err
	}
	data, err := json.Marshal(map[string]any{
		"cniVersion": r.CNIVersion, "name": r.Name, "plugins": c.Delegates,
	})
	if err != nil {
		return nil, err
	}
	list, err := cni.ParseList(data)
	if err != nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "delegates: %v", err)
	}
	invoker, err := cni.New(cni.Config{
		Path: r.Path, Dir: c.Dir, Executor: r.Executor(),
		Timeout: time.Duration(c.TimeoutSeconds) * time.Second,
	})
	if err != nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "%v", err)
	}
	runtime := cni.RuntimeConfig{
		ContainerID: r.ContainerID, NetNS: r.NetNS, IfName: r.IfName,
		Args: r.Args, Capabilities: c.RuntimeConfig,
	}
	if r.Command == cni.CmdAdd {
		runtime.Previous = r.Previous
	}
	return &chain{invoker: invoker, list: list, runtime: runtime, valid: r.Valid}, nil
}
