package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/wholefile"
)

// A List is a network: plugins to run in order. It is immutable.
type List struct {
	// Name is the network's name.
	Name string
	// Version is the specification version for calls of plugins: the highest that both the
	// configuration and this package support.
	Version string
	// DisableCheck makes Invoker.Check do nothing.
	DisableCheck bool
	// DisableGC makes Invoker.GC do nothing.
	DisableGC bool
	// Plugins has at least one element.
	Plugins []Plugin

	// inFiles means that LoadFile adds the plugins in the directory named after the network.
	inFiles bool
}

// Plugin is the configuration of one plugin in a [List].
type Plugin struct {
	// Type is the name of the plugin's executable.
	Type string
	// Capabilities selects the keys of RuntimeConfig.Capabilities that the plugin gets.
	Capabilities map[string]bool

	keys map[string]json.RawMessage
}

// ErrNoConfig means that a directory contains no network configuration.
var ErrNoConfig = errors.New("no network configuration")

// ParseList reads a network configuration list, or the configuration of a
// single plugin, which becomes a list of one.
func ParseList(data []byte) (*List, error) { return parseList(data, "") }

// parseList adds the plugins in a directory below dir if the list allows it. Without a dir there are
// none.
func parseList(data []byte, dir string) (*List, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, fmt.Errorf("network configuration: %w", err)
	}
	if keys == nil {
		return nil, errors.New("network configuration: not an object")
	}
	list := new(List)
	err := list.parse(keys)
	if err == nil && dir != "" && list.inFiles {
		err = list.loadPlugins(filepath.Join(dir, list.Name))
	}
	if err == nil && len(list.Plugins) == 0 {
		err = errors.New("no plugins")
	}
	if err != nil {
		return nil, fmt.Errorf("network configuration %q: %w", list.Name, err)
	}
	return list, nil
}

// loadPlugins appends the plugins in the .conf files of dir, in the order of their names.
func (l *List) loadPlugins(dir string) error {
	names, err := configFiles(dir, ".conf")
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(data, &keys); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p, err := parsePlugin(keys)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l.Plugins = append(l.Plugins, p)
	}
	return nil
}

// parse leaves Plugins empty if the plugins are in files of their own.
func (l *List) parse(keys map[string]json.RawMessage) error {
	if err := key(keys, "name", &l.Name); err != nil {
		return err
	}
	if err := CheckName(l.Name); err != nil {
		return err
	}
	var version string
	var versions []string
	if err := errors.Join(key(keys, "cniVersion", &version), key(keys, "cniVersions", &versions)); err != nil {
		return err
	}
	var err error
	if l.Version, err = negotiate(version, versions); err != nil {
		return err
	}
	if l.DisableCheck, err = flag(keys, "disableCheck"); err != nil {
		return err
	}
	if l.DisableGC, err = flag(keys, "disableGC"); err != nil {
		return err
	}
	inlinedOnly, err := flag(keys, "loadOnlyInlinedPlugins")
	if err != nil {
		return err
	}
	_, single := keys["type"]
	_, isList := keys["plugins"]
	plugins := []map[string]json.RawMessage{keys}
	switch {
	case isList:
		plugins = nil
		if err := key(keys, "plugins", &plugins); err != nil {
			return err
		}
		if len(plugins) == 0 {
			return errors.New("no plugins")
		}
	case inlinedOnly:
		return errors.New("loadOnlyInlinedPlugins: plugins is missing")
	case !single:
		plugins = nil
	}
	l.inFiles = !inlinedOnly && (isList || !single)
	for n, keys := range plugins {
		p, err := parsePlugin(keys)
		if err != nil {
			return fmt.Errorf("plugin %d: %w", n, err)
		}
		l.Plugins = append(l.Plugins, p)
	}
	return nil
}

func parsePlugin(keys map[string]json.RawMessage) (Plugin, error) {
	p := Plugin{keys: keys}
	if err := errors.Join(key(keys, "type", &p.Type), key(keys, "capabilities", &p.Capabilities)); err != nil {
		return p, err
	}
	return p, CheckType(p.Type)
}

// key decodes keys[name] into v if it is present. Names are case-sensitive, unlike with
// encoding/json and struct fields.
func key(keys map[string]json.RawMessage, name string, v any) error {
	raw, ok := keys[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// flag reads a boolean, which some configurations write as a string.
func flag(keys map[string]json.RawMessage, name string) (bool, error) {
	switch raw := string(keys[name]); strings.ToLower(strings.Trim(raw, `"`)) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s: %s is neither true nor false", name, raw)
	}
}

// stdin returns the plugin's input: its configuration with the keys that the runtime derives
// (section 3 of the specification).
func (p Plugin) stdin(l *List, extra map[string]any) ([]byte, error) {
	conf := make(map[string]any, len(p.keys)+len(extra)+2)
	for k, v := range p.keys {
		conf[k] = v
	}
	for _, k := range []string{"capabilities", "cniVersions", "prevResult", "runtimeConfig"} {
		delete(conf, k)
	}
	conf["name"] = l.Name
	conf["cniVersion"] = l.Version
	for k, v := range extra {
		conf[k] = v
	}
	return json.Marshal(conf)
}

// LoadFile reads a .conf, .json or .conflist file. To the plugins of a list it appends those in the
// .conf files of the directory beside it that is named after the network, unless the list sets
// loadOnlyInlinedPlugins.
func LoadFile(path string) (*List, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l, err := parseList(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// LoadDir reads the first configuration file of dir in the order of names. It fails if that file is
// invalid, so that a typing mistake never moves pods to another network. It returns ErrNoConfig if
// there is none. containerd has the same precedence.
func LoadDir(dir string) (*List, error) {
	names, err := configFiles(dir, ".conf", ".conflist", ".json")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoConfig)
	}
	return LoadFile(names[0])
}

// configFiles returns the files of dir with certain extensions, in the order of their names. A
// missing directory has none.
func configFiles(dir string, extensions ...string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(extensions, filepath.Ext(e.Name())) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// WriteFile replaces the configuration at path atomically, so that a reader of the directory never
// sees a part of it. The configuration must be valid.
func WriteFile(path string, data []byte) error {
	if _, err := ParseList(data); err != nil {
		return err
	}
	return wholefile.Write(path, data, 0o644)
}
