package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// commands take a path. They are for probes, hooks, and tests that look into a container.
var commands = map[string]func(path string) error{
	// exists fails if there is no such file, and lacks if there is one.
	"exists": func(path string) error {
		_, err := os.Stat(path)
		return err
	},
	"lacks": func(path string) error {
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("%s exists", path)
		}
		return nil
	},
	"make": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	"read": func(path string) error {
		text, err := os.ReadFile(path)
		fmt.Print(string(text))
		return err
	},
	// hang does not end while the file exists.
	"hang": func(path string) error {
		for {
			if _, err := os.Stat(path); err != nil {
				return nil
			}
			time.Sleep(10 * time.Millisecond)
		}
	},
	"dial": func(path string) error {
		connection, err := net.Dial("unix", path)
		if err == nil {
			connection.Close()
		}
		return err
	},
	// mount mounts a disk with a file.
	"mount": func(path string) error {
		err := os.MkdirAll(path, 0o755)
		if err == nil {
			err = syscall.Mount("tmpfs", path, "tmpfs", 0, "size=64k")
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(path, "inside"), nil, 0o644)
		}
		return err
	},
	"mkdir": func(path string) error { return os.Mkdir(path, 0o755) },
	// keyring asks for a key, which default profiles of seccomp forbid.
	"keyring": func(string) error {
		const sessionKeyring = ^uintptr(2) // -3
		if _, _, err := syscall.Syscall(syscall.SYS_KEYCTL, 0, sessionKeyring, 1); err != 0 {
			return err
		}
		return nil
	},
}

func command(name, path string) {
	run, ok := commands[name]
	if !ok {
		fmt.Println("unknown command", name)
		os.Exit(2)
	}
	if err := run(path); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
