package offline

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// download fetches the named packages, and the libraries they need, from the
// distribution's mirror into dir and returns the files.
func download(ctx context.Context, dir string, names ...string) ([]string, error) {
	all, err := withLibraries(ctx, names)
	if err != nil {
		// A machine that never ran apt-get update knows of no packages.
		if _, updateErr := run(ctx, dir, "apt-get", "update"); updateErr != nil {
			return nil, errors.Join(err, updateErr)
		}
		if all, err = withLibraries(ctx, names); err != nil {
			return nil, err
		}
	}
	// The sandbox user of apt may not write into a directory of ours.
	arguments := append([]string{"-o", "APT::Sandbox::User=root", "download"}, all...)
	if _, err := run(ctx, dir, "apt-get", arguments...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(dir, "*.deb"))
}

// withLibraries adds to names the shared libraries that they depend on,
// directly or not. Anything else a package asks for (maintainer scripts'
// tools, init systems) has no place in an image of one program.
func withLibraries(ctx context.Context, names []string) ([]string, error) {
	all := slices.Clone(names)
	for i := 0; i < len(all); i++ {
		out, err := run(ctx, "", "apt-cache", "depends", "--no-recommends", "--no-suggests",
			"--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances", all[i])
		if err != nil {
			return nil, err
		}
		for _, name := range dependencies(out) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// dependencies reads the output of apt-cache depends and returns the libraries
// and the shared data in it.
func dependencies(out []byte) []string {
	var names []string
	for line := range strings.Lines(string(out)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
		library := strings.HasPrefix(name, "lib") || strings.HasPrefix(name, "zlib") ||
			strings.HasSuffix(name, "-common")
		if ok && library && name != "libgcc-s1" {
			names = append(names, name)
		}
	}
	return names
}

// unpack calls each for every file of a package, with a cleaned path that has
// no leading slash.
func unpack(ctx context.Context, deb string, each func(*tar.Header, io.Reader) error) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := eachFile(stdout, each)
	// Wait closes the pipe; a reader that stopped early must not block dpkg-deb.
	_, _ = io.Copy(io.Discard, stdout)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", filepath.Base(deb), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return readErr
}

func eachFile(r io.Reader, each func(*tar.Header, io.Reader) error) error {
	files := tar.NewReader(r)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		header.Name = strings.TrimPrefix(filepath.Clean("/"+header.Name), "/")
		if header.Name == "" {
			continue
		}
		if err := each(header, files); err != nil {
			return err
		}
	}
}

// run runs a program and returns its standard output; the error quotes its
// standard error.
func run(ctx context.Context, dir, name string, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
