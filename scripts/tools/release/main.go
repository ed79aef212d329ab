// Command release packs one static binary into a container image, without a container engine. The same
// binary, labels and time give the same file, bit by bit. 'docker load' reads the file. The image has
// the files, the user and the labels of the image of docker/Dockerfile.
//
//	release -arch amd64 -tag ttfabric:TAG -created SECONDS -label NAME=VALUE -o FILE BINARY
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// nonroot is the number of the user and of the group in the image (docker/Dockerfile).
const nonroot = 65532

type labels map[string]string

func (l labels) String() string { return fmt.Sprint(map[string]string(l)) }

func (l labels) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" {
		return fmt.Errorf("%q is no NAME=VALUE", s)
	}
	l[k] = v
	return nil
}

func main() {
	arch := flag.String("arch", "amd64", "architecture of the binary, by Go's name")
	tag := flag.String("tag", "", "name and tag of the image")
	created := flag.Int64("created", 0, "time of the image and of the files in the image, in seconds since 1970")
	out := flag.String("o", "", "file to write")
	marks := labels{}
	flag.Var(marks, "label", "label of the image as NAME=VALUE; can be repeated")
	flag.Parse()
	if flag.NArg() != 1 || *tag == "" || *out == "" {
		fmt.Fprintln(os.Stderr, "usage: release -arch ARCH -tag NAME:TAG -created SECONDS [-label NAME=VALUE]... -o FILE BINARY")
		os.Exit(2)
	}
	if err := pack(flag.Arg(0), *arch, *tag, *out, time.Unix(*created, 0).UTC(), marks); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func pack(binary, arch, tag, out string, created time.Time, marks labels) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	files, err := layer(binary, created)
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return err
	}
	img, err = mutate.ConfigFile(img, config(img, arch, created, marks))
	if err != nil {
		return err
	}
	return tarball.WriteToFile(out, ref, img)
}

// config returns the configuration of an image: what docker/Dockerfile says after its last FROM.
func config(img v1.Image, arch string, created time.Time, marks labels) *v1.ConfigFile {
	c, err := img.ConfigFile()
	if err != nil {
		panic(err) // the image is in memory, so its configuration can be read
	}
	c = c.DeepCopy()
	c.Architecture, c.OS, c.Created = arch, "linux", v1.Time{Time: created}
	c.History = []v1.History{{Created: v1.Time{Time: created}, Comment: "scripts/release"}}
	c.Config = v1.Config{User: fmt.Sprintf("%d:%d", nonroot, nonroot), Entrypoint: []string{"/ttfabric"}, Cmd: []string{"--help"}, Labels: marks}
	return c
}

// layer returns the files of the image as a tar archive: the binary, and the folder /state, which
// belongs to the image's user.
func layer(binary string, created time.Time) ([]byte, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "state/", Mode: 0o755, Uid: nonroot, Gid: nonroot},
		{Typeflag: tar.TypeReg, Name: "ttfabric", Mode: 0o755, Size: int64(len(data))},
	} {
		h.ModTime, h.Format = created, tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(data); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
