package imagefile

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ErrNotImages marks errors meaning that a file holds no images in a known format.
var ErrNotImages = errors.New("not an archive of images (of docker save) and not an OCI image layout")

const (
	// maxFiles bounds the files of an archive. One has a few for each layer.
	maxFiles = 100_000
	// maxDocument bounds a document of an archive (index, manifest, configuration), in bytes. Registries accept 4 MiB.
	maxDocument = 8 << 20
	// maxLinks bounds how many links lead to one file.
	maxLinks = 8
)

// files holds the files of an archive by their names.
type files interface {
	// open returns a file and its size. A missing one is fs.ErrNotExist.
	open(name string) (io.ReadCloser, int64, error)
	io.Closer
}

// directory is an archive that is a directory.
type directory struct{ *os.Root }

func (d directory) open(name string) (io.ReadCloser, int64, error) {
	file, err := d.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// archive is a tar file.
type archive struct {
	data    io.ReaderAt
	close   func() error
	entries map[string]entry
}

// entry is a file of an archive: a part of its data, or a link to the path of another one.
type entry struct {
	offset, size int64
	link         string
}

func (a *archive) Close() error { return a.close() }

func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	at := clean(name)
	for range maxLinks {
		e, ok := a.entries[at]
		if !ok {
			break
		}
		if e.link == "" {
			return io.NopCloser(io.NewSectionReader(a.data, e.offset, e.size)), e.size, nil
		}
		at = e.link
	}
	return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// clean returns a path in an archive without a slash in front, and without dots.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// openFiles opens an archive or a directory.
func openFiles(name string) (files, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(name)
		return directory{root}, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	plain, err := uncompressed(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	entries, err := scan(plain)
	if err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return &archive{data: plain, close: plain.Close, entries: entries}, nil
}

// uncompressed returns file, or a temporary file with its contents uncompressed, in which case it closes file. The
// temporary file is removed already: it ends when it is closed.
func uncompressed(file *os.File) (*os.File, error) {
	buffered := bufio.NewReader(file)
	magic, _ := buffered.Peek(4) // a shorter file is no archive
	if bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return nil, fmt.Errorf("%w: it is compressed with zstd; uncompress it first", ErrNotImages)
	}
	if !bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) {
		_, err := file.Seek(0, io.SeekStart)
		return file, err
	}
	reader, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotImages, err)
	}
	plain, err := os.CreateTemp("", "image-*.tar")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(plain.Name()); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	if _, err := io.Copy(plain, reader); err != nil {
		return nil, errors.Join(fmt.Errorf("uncompress: %w", err), plain.Close())
	}
	if _, err := plain.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return plain, file.Close()
}

// scan finds the files of a tar file. A later one replaces an earlier one.
func scan(data io.ReadSeeker) (map[string]entry, error) {
	entries := map[string]entry{}
	// A tar.Reader reads whole blocks: after Next, data is at the beginning of the file's contents.
	reader := tar.NewReader(data)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil && len(entries) == 0 {
			return nil, fmt.Errorf("%w: %w", ErrNotImages, err)
		}
		if err != nil {
			return nil, fmt.Errorf("the archive is damaged: %w", err)
		}
		if len(entries) == maxFiles {
			return nil, fmt.Errorf("%w: it has more than %d files", ErrNotImages, maxFiles)
		}
		name := clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			offset, err := data.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			entries[name] = entry{offset: offset, size: header.Size}
		case tar.TypeLink:
			entries[name] = entry{link: clean(header.Linkname)}
		case tar.TypeSymlink: // docker save writes one for a layer that several images share
			entries[name] = entry{link: clean(path.Join(path.Dir(name), header.Linkname))}
		}
	}
}

// document reads a whole file of at most maxDocument bytes.
func document(all files, name string) ([]byte, error) {
	file, size, err := all.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes; the limit is %d", name, size, maxDocument)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxDocument))
	if err == nil && int64(len(data)) != size {
		err = fmt.Errorf("%s: %w", name, io.ErrUnexpectedEOF)
	}
	return data, err
}
